"""What the loopback provider is told to answer: the same words for every provider's protocol."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

FOREVER = math.inf


@dataclass(frozen=True)
class Say:
    """A token of the answer."""

    text: str


@dataclass(frozen=True)
class Think:
    """A token of reasoning."""

    text: str


@dataclass(frozen=True)
class Use:
    """The model asks for a tool; its arguments come in pieces of `piece` characters."""

    name: str
    arguments: str
    id: str = ""
    piece: int = 5


@dataclass(frozen=True)
class Wait:
    """Silence; with FOREVER it lasts until the client leaves."""

    seconds: float = FOREVER


@dataclass(frozen=True)
class Fault:
    """An error event inside the stream, in the provider's own shape."""

    kind: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True)
class Die:
    """The connection breaks: by a reset, by a plain close in mid-chunk, or the answer ends too early but politely."""

    how: Literal["reset", "drop", "short"] = "reset"


@dataclass(frozen=True)
class Raw:
    """These bytes, as they are, in the stream."""

    data: bytes


Act: TypeAlias = Say | Think | Use | Wait | Fault | Die | Raw


@dataclass(frozen=True)
class Answer:
    """One answer to one request."""

    acts: Sequence[Act] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None  # instead of the protocol: these bytes
    headers_after: float = 0.0  # seconds; FOREVER: the client waits until it leaves
    every: float = 0.0  # seconds between two tokens
    stop: str = ""  # the provider's word for the end; empty: the natural one
    usage: tuple[int, int] | None = (11, 7)  # tokens in, tokens out


def says(*tokens: str, every: float = 0.0, **more: Any) -> Answer:
    """These tokens, and a proper end."""
    return Answer(acts=[Say(t) for t in tokens], every=every, **more)


def drips(n: int = 10_000, every: float = 0.005, token: str = "token{} ") -> Answer:
    """Numbered tokens at a rate."""
    return Answer(acts=[Say(token.format(i)) for i in range(n)], every=every)


def goes_silent(*tokens: str) -> Answer:
    """These tokens, then nothing more; the connection stays open."""
    return Answer(acts=[*(Say(t) for t in tokens), Wait()])


def stalls_before_headers() -> Answer:
    """Not even a status line."""
    return Answer(headers_after=FOREVER)


def stalls_before_first_byte() -> Answer:
    """Headers, but nothing of the body."""
    return Answer(acts=[Wait()])


def dies(*tokens: str, how: Literal["reset", "drop", "short"] = "reset") -> Answer:
    """These tokens, then the end of the connection."""
    return Answer(acts=[*(Say(t) for t in tokens), Die(how)])


def uses(*calls: Use, before: str = "") -> Answer:
    """The model asks for tools, perhaps saying something first."""
    return Answer(acts=[*([Say(before)] if before else []), *calls])


def use(name: str, arguments: Any = None, call: str = "") -> Use:
    """A tool with arguments; a str is sent as it is, valid JSON or not."""
    return Use(name, arguments if isinstance(arguments, str) else json.dumps(arguments or {}), call)


def refuses(status: int, message: str = "", *, kind: str = "", retry_after: str | None = None) -> Answer:
    """An error status with the provider's error body."""
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return Answer(
        acts=[Fault(kind or KINDS.get(status, "api_error"), message or f"told to answer {status}")],
        status=status,
        headers=headers,
    )


def sends_html(status: int = 200) -> Answer:
    """What a proxy's login page looks like."""
    page = b"<!doctype html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>"
    return Answer(status=status, body=page, headers={"content-type": "text/html"})


def sends_garbage() -> Answer:
    """An event stream whose events are no JSON."""
    body = b'event: message_start\ndata: {"type": \x00\xff this is not json\n\n'
    return Answer(body=body, headers={"content-type": "text/event-stream"})


def floods(size: int, piece: int = 4096) -> Answer:
    """So many bytes of text, as fast as they are taken."""
    return Answer(acts=[Say("x" * piece)] * (size // piece))


KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
