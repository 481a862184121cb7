"""Fields of our own: a text that is encrypted at rest, and JSON that is kept as it was written."""

import base64
import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import models


@lru_cache
def cipher(secret: str) -> Fernet:
    # A key of its own, derived, so that the secret itself encrypts nothing.
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"agentsite field " + secret.encode()).digest()))


class Unreadable(str):
    """What was encrypted with another SECRET_KEY reads as empty, and is stored again as it was."""

    __slots__ = ("stored",)
    stored: str

    def __new__(cls, stored: str) -> "Unreadable":
        made = super().__new__(cls)
        made.stored = stored
        return made


class EncryptedTextField(models.TextField):
    """Fernet, with a key derived from SECRET_KEY."""

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, Unreadable):
            return value.stored
        value = super().get_prep_value(value)
        return cipher(settings.SECRET_KEY).encrypt(value.encode()).decode() if value else value

    def from_db_value(self, value: str | None, expression: object, connection: object) -> str | None:
        if not value:
            return value
        try:
            return cipher(settings.SECRET_KEY).decrypt(value.encode()).decode()
        except InvalidToken:
            return Unreadable(value)


class WrittenJSONField(models.TextField):
    """JSON as text, with its order and its numbers. PostgreSQL's own JSON sorts keys and rewrites numbers: a person
    would see a form in no order, and a digest would not fit any more."""

    if TYPE_CHECKING:  # what may be put in, and what comes out
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False)

    def from_db_value(self, value: str | None, expression: object, connection: object) -> Any:
        return None if value is None else json.loads(value)

    # In what `dumpdata` writes and `loaddata` reads it is JSON, as with Django's own field, and no text of Python's.

    def value_to_string(self, obj: models.Model) -> Any:
        return self.value_from_object(obj)

    def to_python(self, value: Any) -> Any:
        return value
