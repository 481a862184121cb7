"""The notes of a conversation, for the tools `remember` and `recall`."""

from runs.database import in_reader, in_writer, writing
from runs.models import Note


class StoredNotes:
    def __init__(self, conversation_pk: int) -> None:
        self.conversation_pk = conversation_pk

    async def remember(self, key: str, text: str) -> None:
        await in_writer(self._remember, key, text)

    async def recall(self) -> dict[str, str]:
        return await in_reader(self._recall)

    def _remember(self, key: str, text: str) -> None:
        with writing():
            Note.objects.update_or_create(conversation_id=self.conversation_pk, key=key, defaults={"text": text})

    def _recall(self) -> dict[str, str]:
        return dict(Note.objects.filter(conversation_id=self.conversation_pk).values_list("key", "text"))
