"""Calls that standfast itself performs: ask a person, sleep, run a child. They go through the gate like any other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Any, TypeVar, cast, overload

from pydantic import JsonValue

from standfast import arguments
from standfast.agents import Agent, as_agent
from standfast.codec import Codec, canonical, from_json, to_json
from standfast.errors import Misuse, NotStorable, WrongState
from standfast.tools import Call, Tool

S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")


class AskCall(Call[T]):
    """A question to a person."""

    __slots__ = ("codec", "default", "question", "timeout")

    def __init__(
        self,
        question: str,
        options: list[JsonValue] | None,
        codec: Codec[T],
        timeout: float | None,
        default: bytes | None,
    ) -> None:
        args: dict[str, Any] = {"question": question, "options": options}
        super().__init__(cast("Tool[..., T]", _ASK), args, canonical(to_json(args)))
        self.codec = codec
        self.question = question
        self.timeout = timeout
        self.default = default


class ChildCall(Call[R]):
    """A run of another agent, driven as a part of this one."""

    __slots__ = ("agent", "state")

    def __init__(self, agent: Agent[Any, R], state: Any) -> None:
        try:
            raw = agent.state_codec.dump(state)
        except NotStorable as error:
            kind = getattr(agent.state_type, "__name__", agent.state_type)
            raise WrongState(f"the state for {agent.name} is not a {kind}: {error.message}", hint=error.hint) from error
        self.agent = agent
        self.state = state
        args = canonical(b'{"agent":' + to_json(agent.name) + b',"state":' + raw + b"}")
        super().__init__(cast("Tool[..., R]", _CHILD), {"agent": agent.name}, args)


@overload
def ask(
    question: str,
    options: Sequence[str] | None = ...,
    *,
    timeout: float | None = ...,
    default: str | EllipsisType = ...,
) -> Call[str]: ...
@overload
def ask(
    question: str,
    options: Sequence[T] | None = ...,
    *,
    type: type[T],
    timeout: float | None = ...,
    default: T | EllipsisType = ...,
) -> Call[T]: ...
@overload
def ask(
    question: str,
    options: Sequence[T] | None,
    type: type[T],
    timeout: float | None = ...,
    default: T | EllipsisType = ...,
) -> Call[T]: ...
def ask(
    question: str,
    options: Sequence[Any] | None = None,
    type: Any = str,  # noqa: A002 - API name
    timeout: float | None = None,
    default: Any = ...,
) -> Call[Any]:
    """Ask a person. The run is paused(asks) once only questions are left; the answer survives restarts."""
    if not arguments.text("question", question).strip():
        raise Misuse("ask() needs a question", hint="say what the person should decide")
    if timeout is None and default is not ...:
        raise Misuse("ask(default=...) needs a timeout", hint="the default is given when the time is up")
    if timeout is not None:
        arguments.number("timeout", timeout, "give seconds, or None to wait for ever")
    codec: Codec[Any] = Codec(type)
    offered: list[JsonValue] | None = None
    if options is not None:
        if isinstance(options, str) or not isinstance(options, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Misuse(f"options={options!r} is no list", hint='for example ask("Which?", ["this", "that"])')
        offered = [from_json(_answer(codec, option, f"ask(options=[..., {option!r}])")) for option in options]
    if default is ...:
        return AskCall(question, offered, codec, timeout, None)
    given = f"ask(default={default!r})"
    raw = _answer(codec, default, given)
    if offered is not None and from_json(raw) not in offered:
        raise Misuse(f"{given} is not one of the options", hint=f"give one of {offered}")
    return AskCall(question, offered, codec, timeout, raw)


def _answer(codec: Codec[Any], value: Any, given: str) -> bytes:
    """The JSON of what could be an answer, or Misuse."""
    try:
        return codec.dump(value)
    except NotStorable as error:
        wanted = getattr(codec.type, "__name__", codec.type)
        raise Misuse(
            f"{given} is no answer of type {wanted}{f': see {error.path}' if error.path else ''}",
            hint="give one of that type; without a default the call raises CallTimedOut when the time is up",
        ) from error


def sleep(seconds: float) -> Call[None]:
    """Wait; a pause or restart in between does not make it longer."""
    if arguments.number("seconds", seconds) < 0:
        raise Misuse("sleep() takes no negative time", hint="0 is the shortest")
    return _SLEEP(seconds)


def child(agent: Agent[S, R], state: S) -> Call[R]:
    """Run another agent as a part of this run: paused, cancelled and counted with it."""
    return ChildCall(as_agent(agent), state)


async def _ask(question: str, options: list[JsonValue] | None) -> JsonValue:
    raise AssertionError((question, options))


async def _sleep(seconds: float) -> None:
    raise AssertionError(seconds)


async def _child(agent: str) -> JsonValue:
    raise AssertionError(agent)


# The gate never runs these functions: it knows the kinds. They give the calls their names and schemas.
_ASK: Tool[..., Any] = Tool(_ask, effect="read", kind="ask", name="ask")
_SLEEP: Tool[[float], None] = Tool(_sleep, effect="read", kind="sleep", name="sleep")
_CHILD: Tool[..., Any] = Tool(_child, effect="idempotent", kind="child", name="child")
