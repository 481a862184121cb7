"""Failures of a model provider, in the words of the contract."""

from dataclasses import dataclass
from typing import Literal

ErrorType = Literal["llm_timeout", "llm_rate_limit", "llm_authentication", "llm_error", "worker_lost", "internal_error"]


@dataclass
class ProviderError(Exception):
    """A model call failed. `transient`: worth another try, after `retry_after` seconds if the provider said so."""

    error_type: ErrorType
    message: str
    detail: str = ""
    transient: bool = False
    retry_after: float | None = None

    def __str__(self) -> str:
        return self.message
