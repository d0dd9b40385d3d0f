"""What a tool's body may ask of the call it runs in.

A ContextVar, because the body is plain user code called by the driver: it reaches
`say()` or `idempotency_key()` from any depth without passing an object along.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

from standfast import arguments
from standfast.errors import Misuse, OutsideACall
from standfast.owning import Pieces
from standfast.records import Channel

T = TypeVar("T")


run_salt: ContextVar[str] = ContextVar("standfast_salt", default="")
"""What a run salts its digests with, in its steps; none outside."""


class Stopped(BaseException):
    """Unwinds synchronous code whose call has been cut. Never catch it."""


class StopToken(Protocol):
    """Lets long synchronous code notice that it should end."""

    @property
    def stopped(self) -> bool:
        """True once the call has been cut."""
        ...

    def check(self) -> None:
        """Unwind now if the call has been cut."""
        ...


class CallContext(Protocol):
    """The call a body runs in, as seen by the body."""

    @property
    def key(self) -> str:
        """The call's idempotency key."""
        ...

    @property
    def stop_token(self) -> StopToken: ...

    @property
    def in_process_tool(self) -> bool:
        """True in the process of a `process=True` tool: programs stay in its group."""
        ...

    def begin_program(self, *, clean_up: bool = False) -> str:
        """A program of this call is about to be started: the mark it carries, by which it is found; "" if none.

        Raises Stopped if the call was cut, unless it may be for its clean-up.
        """
        ...

    def pieces(self) -> Pieces | None:
        """Where work is noted that the body hands to an executor; None if a stop ends the whole process."""
        ...

    @property
    def time_left(self) -> float | None:
        """For a task that is begun now: None unless the call was cut; 0 if it may not begin any more."""
        ...

    def use(self, type_: type[Any]) -> Any: ...

    def say(self, text: str) -> None: ...

    def spend(self, input_tokens: int, output_tokens: int, cost: float) -> None: ...

    def progress(self, fraction: float, text: str) -> None: ...


class ModelContext(CallContext, Protocol):
    """What the call of a model may do beside that."""

    @property
    def run_id(self) -> str: ...

    @property
    def planted(self) -> str:
        """What a guard of this call adds to the model's instructions; empty if nothing."""
        ...

    def say(self, text: str, channel: Channel = "text") -> None: ...

    def begin_anew(self) -> None:
        """What is said from now on stands in place of what was said."""
        ...

    def hear(self, tokens: int, *, estimated: bool, just_now: bool = True) -> None:
        """So many tokens have come from the provider in all, the last of them just now or earlier."""
        ...

    def byte_came(self) -> None:
        """Something has come from the provider just now; from whatever thread."""
        ...

    async def wait_before_retry(self, seconds: float, why: str, tries: int) -> bool:
        """Wait where people can see it; False if the gate has closed meanwhile."""
        ...


current_call: ContextVar[CallContext | None] = ContextVar("standfast_call", default=None)


def _context(asked: str) -> CallContext:
    context = current_call.get()
    if context is None:
        raise OutsideACall(
            f"{asked} was used outside a tool's body",
            hint="it works in code that run.call performs; in unit tests use standfast.testing.tool_context()",
        )
    return context


def idempotency_key() -> str:
    """The call's key: the same on every retry, resume and takeover."""
    return _context("idempotency_key()").key


def use(type_: type[T]) -> T:
    """The dependency given as `Runtime(provide={type_: ...})`."""
    return cast("T", _context("use()").use(type_))


def say(text: str) -> None:
    """Add to this call's output: shown live, kept when the call is cut."""
    _context("say()").say(arguments.text("say(text)", text))


def spend(input_tokens: int = 0, output_tokens: int = 0, cost: float = 0) -> None:
    """Count what this call used into the run's budget."""
    arguments.whole("input_tokens", input_tokens)
    arguments.whole("output_tokens", output_tokens)
    arguments.number("cost", cost)
    if input_tokens < 0 or output_tokens < 0 or cost < 0:
        raise Misuse("spend() takes no negative amounts", hint="a budget only counts up")
    _context("spend()").spend(input_tokens, output_tokens, cost)


def progress(fraction: float, text: str = "") -> None:
    """Say how far this call is, from 0 to 1."""
    arguments.number("progress(fraction)", fraction)
    _context("progress()").progress(min(1.0, max(0.0, fraction)), arguments.text("progress(text)", text))


def stop_token() -> StopToken:
    """A token that tells long synchronous code when to end."""
    return _context("stop_token()").stop_token
