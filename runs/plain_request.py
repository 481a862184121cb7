"""A request as Daphne reads it, and nothing more than read.

* Twisted would parse the body of every form, on the event loop: two megabytes of it hold everybody up for half a
  second, and whoever sends them needs no key. Django parses forms itself, in a thread and within limits.
* Daphne takes the site's place below a path from a header that any client can send. It is left out.
* What Daphne refuses by itself is refused under `/v1` as everything there is: in the envelope.
"""

from typing import Any

from daphne.http_protocol import WebRequest

from runs.actions import Refused
from runs.api.errors import answer_refused


class PlainRequest(WebRequest):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, parsePOSTFormSubmission=False, **kwargs)

    def process(self) -> Any:
        self.requestHeaders.removeHeader(b"Daphne-Root-Path")
        return super().process()

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        if not self.uri.startswith(b"/v1/"):
            super().basic_error(status, status_text, body)
            return
        code = "internal_error" if status >= 500 else "invalid_request"
        answer = answer_refused(Refused(status, code, f"{body.removesuffix('.')}."))
        headers = [(name.encode(), value.encode()) for name, value in answer.items()]
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": answer.content})
