"""What a provider's SDK raises, in our words: what kind of no it was, what the provider said, what to do."""

from __future__ import annotations

import email.utils
import math
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from standfast.errors import StandfastError
from standfast.replies import ProviderError, Trouble

# SDKs build their events without checking them: what is no protocol shows when somebody reads it.
NONSENSE = (AttributeError, IndexError, KeyError, TypeError, ValueError)

_BY_STATUS: dict[int, Trouble] = {
    401: "unauthorised",
    403: "unauthorised",
    404: "not_found",
    408: "connection",
    409: "overloaded",
    425: "overloaded",
    429: "rate_limited",
}
_BY_WORD: dict[str, Trouble] = {
    "authentication_error": "unauthorised",
    "permission_error": "unauthorised",
    "invalid_api_key": "unauthorised",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "invalid_request_error": "refused",
    "invalid_prompt": "refused",
    "request_too_large": "refused",
    "billing_error": "refused",
    "insufficient_quota": "refused",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
}
_SAYS: dict[Trouble, str] = {
    "rate_limited": "is rate limited",
    "overloaded": "is overloaded or broken",
    "connection": "could not be reached, or the connection broke",
    "unauthorised": "did not accept the key",
    "not_found": "was not found",
    "refused": "refused the request",
    "nonsense": "did not answer in its protocol",
}
_SHOWN = 500  # characters of what a provider said


@dataclass(frozen=True, slots=True)
class Sdk:
    """A provider's SDK: its exceptions, and what people need to know of it."""

    name: str
    errors: Any  # the module: OpenAIError or AnthropicError, APIStatusError, APIConnectionError
    base_error: type[Exception]
    key_variable: str

    def expected(self) -> tuple[type[Exception], ...]:
        """What asking and reading may raise; anything else is a fault of ours, and is not hidden."""
        import anyio  # noqa: PLC0415 - comes with the SDK

        transports = [module.TransportError for name in ("httpx2", "httpx") if (module := sys.modules.get(name))]
        decoding = [module.DecodingError for name in ("httpx2", "httpx") if (module := sys.modules.get(name))]
        return (self.base_error, *transports, *decoding, anyio.EndOfStream, OSError, *NONSENSE)


def in_our_words(error: Exception, sdk: Sdk, model: str, url: str) -> StandfastError:
    """The error to raise for one of an SDK; what standfast itself raised below the SDK comes out as it was."""
    for cause in _causes(error):
        if isinstance(cause, StandfastError):
            return cause
    trouble, status = _kind(error, sdk)
    detail = _detail(error, trouble)
    said = f" ({status})" if status else ""
    return ProviderError(
        f"{model} at {url} {_SAYS[trouble]}{said}" + (f": {detail}" if detail else ""),
        trouble=trouble,
        status=status,
        retry_after=retry_after(getattr(getattr(error, "response", None), "headers", None) or {}),
        hint=_hint(trouble, sdk, model, error),
    )


def by_word(*words: str | None) -> Trouble:
    """The trouble a provider names inside a stream; one it does not name well is worth another try."""
    for word in words:
        if word in _BY_WORD:
            return _BY_WORD[word]
    return "overloaded"


def told(trouble: Trouble, said: str, sdk: Sdk, model: str, url: str) -> ProviderError:
    """An error of which the provider told us inside its answer."""
    message = f"{model} at {url} {_SAYS[trouble]}: {said[:_SHOWN]}"
    return ProviderError(message, trouble=trouble, hint=_hint(trouble, sdk, model, None))


def cut_short(model: str, url: str, content_type: str, *, begun: bool) -> ProviderError:
    """For an answer that ended politely, but too early."""
    if not begun and "event-stream" not in content_type:
        what = content_type or "something without a content type"
        return ProviderError(
            f"{model} at {url} did not answer in its protocol: it sent {what} instead of a stream of events",
            trouble="nonsense",
            hint="check the base_url: a proxy or another kind of server may be answering, or one that cannot stream",
        )
    return ProviderError(
        f"the stream of {model} at {url} ended before its answer did",
        trouble="connection",
        hint="the answer was not taken as a whole one; asking again may help",
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, if the provider said so: in milliseconds, in seconds, or as a date."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(header)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            date = email.utils.parsedate_tz(value)
            if date is None:
                continue
            seconds = email.utils.mktime_tz(date) - time.time()
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _kind(error: Exception, sdk: Sdk) -> tuple[Trouble, int | None]:
    errors = sdk.errors
    words = _words(error)
    if isinstance(error, errors.APIResponseValidationError):
        return "nonsense", None
    if isinstance(error, errors.APIStatusError):
        status: int = cast("Any", error).status_code
        if status < 400:  # it began well: the error came inside the stream
            return by_word(*words), None
        if "insufficient_quota" in words or "billing_error" in words:
            return "refused", status
        if "model_not_found" in words:
            return "not_found", status
        return _BY_STATUS.get(status, "overloaded" if status >= 500 else "refused"), status
    if isinstance(error, errors.APIConnectionError):
        return "connection", None
    if isinstance(error, errors.APIError):
        return by_word(*words), None
    if isinstance(error, sdk.base_error) or (isinstance(error, TypeError) and "authentication" in str(error)):
        return "unauthorised", None  # there is no key at all: the SDK did not even ask
    if type(error).__name__ == "DecodingError" or isinstance(error, NONSENSE):
        return "nonsense", None
    return "connection", None


def _body(error: Exception) -> dict[str, Any]:
    """What the provider said of the error; some SDKs keep the envelope around it."""
    body: Any = getattr(error, "body", None)
    if not isinstance(body, dict):
        return {}
    doc = cast("dict[str, Any]", body)
    inner = doc.get("error", doc)
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {"message": inner}


def _words(error: Exception) -> list[str]:
    """The provider's own names for the error."""
    body = _body(error)
    return [word for word in (body.get("code"), body.get("type")) if isinstance(word, str)]


def _detail(error: Exception, trouble: Trouble) -> str:
    """What the provider, or the network, said."""
    message = _body(error).get("message")
    if isinstance(message, str) and message:
        return message[:_SHOWN]
    if trouble == "connection":
        deepest = [str(cause) for cause in _causes(error) if str(cause)]
        return deepest[-1][:_SHOWN] if deepest else type(error).__name__
    if trouble == "nonsense":
        return f"{type(error).__name__}: {error}"[:_SHOWN]
    return str(error)[:_SHOWN]


def _hint(trouble: Trouble, sdk: Sdk, model: str, error: Exception | None) -> str:
    if trouble == "unauthorised":
        return f"set {sdk.key_variable}, or give a client with a valid api_key"
    if trouble == "not_found":
        return f"check the model's name, {model!r}, and the client's base_url"
    if trouble == "connection":
        return "check the network and the client's base_url; asking again may help"
    if trouble == "rate_limited":
        return "asking again later will do; more requests at a time need a higher limit"
    if trouble == "overloaded":
        return "asking again later may help"
    if trouble == "nonsense":
        return "check the base_url: a proxy or another kind of server may be answering"
    if error is not None and "insufficient_quota" in _words(error):
        return f"the {sdk.name} account has no credit left"
    return "the provider's words say what is wrong with the request; the run's messages and options are what was sent"
