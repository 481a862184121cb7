"""The in-memory channel layer of the embedded deployment, with one change.

Channels' own goes through all channels and groups at every send, to find what has expired: with a hundred watchers that
was a tenth of the work of telling them. Once a second is often enough.
"""

import time

from channels.layers import InMemoryChannelLayer

SWEEP_SECONDS = 1.0


class EmbeddedLayer(InMemoryChannelLayer):
    is_away = False
    joins_at_once = True
    _swept_at = 0.0

    def _clean_expired(self) -> None:
        now = time.monotonic()
        if now - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = now
            super()._clean_expired()
