"""What can go wrong with a model call, in the contract's terms (E1): which type, whether another try is worth it, when.

The message is a sentence for people, the detail the provider's own words. Neither ever holds the key.
"""

import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any
from urllib.parse import quote

import aiohttp
import httpx2
import openai

from gateway.errors import ErrorType, ProviderError
from gateway.providers.sse import EventTooLarge
from gateway.text import storable_text

MAX_DETAIL = 2_000
SHORTEST_SECRET = 4  # below that a "key" is a placeholder, and striking it out would only garble the text

USED_UP = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
TOO_LONG = {"context_length_exceeded", "string_above_max_length"}

# An error inside a stream comes without a status: its name stands for the one that it would have had.
STATUS_OF_NAME = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "too_many_requests": 429,
    **dict.fromkeys(USED_UP, 429),
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "invalid_request_error": 400,
    "bad_request": 400,
    "content_filter": 400,
    **dict.fromkeys(TOO_LONG, 400),
    "model_not_found": 404,
    "not_found_error": 404,
    "overloaded_error": 529,
    "server_error": 500,
}

SENTENCES = {
    400: "The provider refused the request (400).",
    401: "The provider refused the key (401).",
    402: "The provider asks for payment (402).",
    403: "The provider does not allow this with this key (403).",
    404: "The provider does not know this model or this address (404).",
    408: "The provider gave up waiting (408).",
    409: "The provider is busy with a conflicting request (409).",
    413: "The request is too large for the provider (413).",
    429: "The provider asks to slow down (429).",
    503: "The provider is not available right now (503).",
    529: "The provider is overloaded (529).",
}


@dataclass(frozen=True, slots=True)
class Complaint:
    """A provider's own account of an error, as far as it could be read."""

    words: str = ""
    code: str = ""
    type: str = ""

    @property
    def names(self) -> set[str]:
        return {self.code, self.type}


def read_complaint(body: object) -> Complaint:
    """From `{"message", "code", "type"}`, from that inside of `{"error": …}`, or from whatever else came."""
    if isinstance(body, dict) and "error" in body:
        inner = body["error"]
        body = inner if isinstance(inner, dict) else {**body, "message": inner}
    if not isinstance(body, dict):
        return Complaint("" if body is None else str(body).strip())
    words = body.get("message") or body.get("detail") or body
    return Complaint(str(words), str(body.get("code") or ""), str(body.get("type") or ""))


def translate(error: Exception) -> ProviderError | None:
    """The failure that an exception of the client stands for; None if it is no failure of the provider at all."""
    match error:
        case ProviderError():
            return error
        case openai.APIStatusError():
            return failure_of_status(error.status_code, read_complaint(error.body), error.response.headers)
        case openai.APITimeoutError() | openai.APIConnectionError() if isinstance(error.__cause__, Exception):
            return translate(error.__cause__)
        case httpx2.ConnectTimeout() if is_no_timeout(error):
            return failure_of_connection(error)
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return timeout("The provider could not be reached in time.", error)
        case httpx2.TimeoutException() | openai.APITimeoutError() | TimeoutError():
            return timeout("The provider was silent for too long.", error)
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return ProviderError("llm_error", "The provider's address is not valid.", describe(error))
        case EventTooLarge():
            return ProviderError("llm_error", "The provider sent more at once than can be true.", describe(error))
        case httpx2.HTTPError() | httpx2.StreamError() | openai.APIConnectionError() | OSError():
            return failure_of_connection(error)
        case aiohttp.ClientError():  # openai's transport on aiohttp knows no name for what is no HTTP at all
            return failure_of_connection(error)
    return None


def is_no_timeout(error: Exception) -> bool:
    """openai's transport on aiohttp calls every failed connection a time-out; what lies behind it knows better."""
    return isinstance(error.__cause__, aiohttp.ClientError) and not isinstance(error.__cause__, TimeoutError)


def timeout(message: str, error: Exception) -> ProviderError:
    return ProviderError("llm_timeout", message, describe(error), transient=True)


def failure_of_connection(error: Exception) -> ProviderError:
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes_of(error)):
        return ProviderError("llm_error", "The provider's certificate is not trusted.", describe(error))
    return ProviderError("llm_error", _words_for(causes_of(error)), describe(error), transient=True)


def _words_for(causes: list[BaseException]) -> str:
    """What an admin would look for first."""
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "Nothing listens at the provider's address."
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "The name in the provider's address is not known."
    return "The connection to the provider failed."


def failure_of_status(
    status: int, complaint: Complaint = Complaint(), headers: Mapping[str, str] | None = None
) -> ProviderError:
    error_type: ErrorType = "llm_error"
    is_transient = status >= 500 or status in (408, 409)
    message = SENTENCES.get(status, f"The provider refused the request ({status}).")
    if status == 429:
        error_type, is_transient = "llm_rate_limit", not complaint.names & USED_UP
        if not is_transient:
            message = "The provider's quota for this key is used up (429)."
    elif status in (401, 403):
        error_type = "llm_authentication"
    elif status < 400:
        message = f"The provider's address leads elsewhere ({status}): set the final one as base URL."
    elif status >= 500 and status not in SENTENCES:
        message = f"The provider failed ({status})."
    elif complaint.names & TOO_LONG:
        message = f"The conversation is too long for this model ({status})."
    retry_after = read_retry_after(headers or {}) if is_transient else None
    return ProviderError(error_type, message, complaint.words, is_transient, retry_after)


def failure_in_stream(event: Mapping[str, Any]) -> ProviderError:
    """For an error object that came instead of the next piece of the answer."""
    complaint = read_complaint(dict(event))
    status = int(complaint.code) if complaint.code.isdecimal() else 0
    if not 400 <= status < 600:
        status = next((STATUS_OF_NAME[name] for name in (complaint.code, complaint.type) if name in STATUS_OF_NAME), 0)
    if status:
        return failure_of_status(status, complaint)
    return ProviderError("llm_error", "The provider reported an error in its answer.", complaint.words, transient=True)


def read_retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `Retry-After` (seconds or a date); None where neither makes sense."""
    for name, scale in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / scale
        except ValueError:
            continue
        return seconds if isfinite(seconds) and seconds >= 0 else None
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def causes_of(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def describe(error: Exception) -> str:
    """The exception and what lies behind it, each said once: "ConnectError: … < OSError: …"."""
    said: list[str] = []
    for cause in causes_of(error):
        words = f"{type(cause).__name__}: {cause}".removesuffix(": ")
        if not said or str(cause) not in said[-1]:
            said.append(words)
    return " < ".join(said)


def scrub(text: str, secret: str) -> str:
    """The text without the key, in whatever form a provider echoes it, and not longer than a screen."""
    text = storable_text(text)
    if len(secret) >= SHORTEST_SECRET:
        for form in {secret, quote(secret, safe="")}:
            text = text.replace(form, "[key]")
    text = re.sub(r"\b(?:sk|pk|gsk|xai)-[\w*.\-]{6,}", "[key]", text)  # also half a key behind asterisks
    text = re.sub(r"(?i)\bbearer\s+[^\s\"',;]+", "Bearer [key]", text)
    text = re.sub(r"://[^\s/@]+@", "://", text)
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"
