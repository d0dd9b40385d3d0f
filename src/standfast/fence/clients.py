"""HTTP clients, and SDK clients, whose requests go through the fence."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from standfast.errors import Misuse
from standfast.fence.blocking import SyncBody, SyncFence
from standfast.fence.waiting import AsyncBody, AsyncFence

if TYPE_CHECKING:
    import httpx2

C = TypeVar("C")
Library = Literal["httpx2", "httpx"]


@overload
def http_client(*, library: Literal["httpx2"] = "httpx2", **kwargs: Any) -> httpx2.AsyncClient: ...
@overload
def http_client(*, library: Literal["httpx"], **kwargs: Any) -> Any: ...
def http_client(*, library: Library = "httpx2", **kwargs: Any) -> Any:
    """An async client whose requests belong to the run that sends them: refused and cut with it.

    For `AsyncOpenAI(http_client=...)`, `AsyncAnthropic(http_client=...)` and whatever else takes one. `kwargs` are
    those of the library's own client; `library="httpx"` is for what has not moved to httpx2.
    """
    client = _library(library).AsyncClient(**_with_defaults(library, kwargs))
    return _put_fence(client, client, None)


@overload
def sync_http_client(*, library: Literal["httpx2"] = "httpx2", **kwargs: Any) -> httpx2.Client: ...
@overload
def sync_http_client(*, library: Literal["httpx"], **kwargs: Any) -> Any: ...
def sync_http_client(*, library: Library = "httpx2", **kwargs: Any) -> Any:
    """The same for sync clients, in a sync tool or in `asyncio.to_thread`: cut by shutting down the socket."""
    client = _library(library).Client(**_with_defaults(library, kwargs))
    return _put_fence(client, client, None)


def openai(client: C) -> C:
    """A client like this one, async or sync, whose requests go through the fence. The given one stays as it is."""
    return _fenced_sdk(client, "AsyncOpenAI()")


def anthropic(client: C) -> C:
    """A client like this one, async or sync, whose requests go through the fence. The given one stays as it is."""
    return _fenced_sdk(client, "AsyncAnthropic()")


def _fenced_sdk(client: C, example: str) -> C:
    sdk: Any = client
    http: Any = getattr(sdk, "_client", None)
    if http is None or not hasattr(sdk, "copy") or not hasattr(http, "_transport"):
        raise Misuse(f"the fence was given {client!r}", hint=f"give it a client of the SDK: {example}")
    kind: Any = http.__class__
    # The SDK's own http clients close their connections when they are freed: this one only borrows them.
    like: Any = type(f"Fenced{kind.__name__}", (kind,), {"__del__": _stay_open})
    copy = like.__new__(like)
    copy.__dict__.update(http.__dict__)
    return cast("C", sdk.copy(http_client=_put_fence(copy, http, http)))


def _stay_open(_: object) -> None:
    """Freed, it leaves the connections to the client whose they are."""


def _put_fence(client: Any, original: Any, keep: object) -> Any:
    """Put the fence before every way out of a client: its own transport, and those for proxies and mounts."""
    kinds = _classes(_library_of(client), hasattr(client, "aclose"))
    client._transport = _fence(kinds, original._transport, keep)
    client._mounts = {
        pattern: None if transport is None else _fence(kinds, transport, keep)
        for pattern, transport in original._mounts.items()
    }
    return client


def _fence(kinds: tuple[Any, Any], transport: Any, keep: object) -> Any:
    if isinstance(transport, AsyncFence | SyncFence):
        return transport  # twice fenced, a request would be two calls
    fence, body = kinds
    return fence(transport, body, keep)


@cache
def _classes(library: Library, is_async: bool) -> tuple[Any, Any]:
    """Ours, as the library's own kinds: it looks at the type of a stream."""
    http = _library(library)
    if is_async:
        fence = type("AsyncFencedTransport", (AsyncFence, http.AsyncBaseTransport), {})
        return fence, type("AsyncFencedBody", (AsyncBody, http.AsyncByteStream), {})
    fence = type("FencedTransport", (SyncFence, http.BaseTransport), {})
    return fence, type("FencedBody", (SyncBody, http.SyncByteStream), {})


def _library_of(client: Any) -> Library:
    return "httpx" if any(kind.__module__.partition(".")[0] == "httpx" for kind in type(client).__mro__) else "httpx2"


def _library(name: Library) -> Any:
    try:
        return import_module(name)  # either comes with an SDK, neither with standfast
    except ImportError as error:
        raise Misuse(f"{name} is not installed", hint=f"pip install {name}; the SDKs bring httpx2") from error


def _with_defaults(library: Library, kwargs: dict[str, Any]) -> dict[str, Any]:
    """As the SDKs' own clients have them; a timeout is left to the SDK."""
    limits = _library(library).Limits(max_connections=1000, max_keepalive_connections=100)
    return {"follow_redirects": True, "limits": limits, **kwargs}
