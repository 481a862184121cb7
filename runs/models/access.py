"""API keys: shown once, stored as a hash, named, expiring, revocable."""

import hashlib
import secrets
from datetime import datetime

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

PREFIX = "ask_"


def digest_of(key: str) -> str:
    # A key has 256 random bits, so a plain fast hash protects it as well as a slow one would.
    return hashlib.sha256(key.encode()).hexdigest()


class ApiKey(models.Model):
    name = models.CharField(_("name"), max_length=100)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("user"), on_delete=models.CASCADE, related_name="api_keys"
    )
    digest = models.CharField(_("digest"), max_length=64, unique=True, editable=False)
    beginning = models.CharField(
        _("beginning"), max_length=12, editable=False, help_text=_("The key's first characters, to tell keys apart.")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.beginning}…)"

    @classmethod
    def make(cls, *, name: str, user: models.Model, expires_at: datetime | None = None) -> tuple["ApiKey", str]:
        """A new stored key, and its text, which exists nowhere else."""
        text = PREFIX + secrets.token_urlsafe(32)
        key = cls.objects.create(
            name=name, user=user, digest=digest_of(text), beginning=text[:10], expires_at=expires_at
        )
        return key, text

    @property
    def is_usable(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())
