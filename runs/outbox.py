"""The outbox of a conversation, for the tool `send_email`: a table that can be looked at."""

from runs.database import in_writer, writing
from runs.models import OutboxEmail


class StoredOutbox:
    def __init__(self, conversation_pk: int, call_id: str) -> None:
        self.conversation_pk = conversation_pk
        self.call_id = call_id

    async def send(self, to: str, subject: str, body: str) -> None:
        await in_writer(self._send, to, subject, body)

    def _send(self, to: str, subject: str, body: str) -> None:
        with writing():
            OutboxEmail.objects.create(
                conversation_id=self.conversation_pk, call_id=self.call_id, to=to, subject=subject, body=body
            )
