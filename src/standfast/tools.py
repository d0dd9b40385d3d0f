"""@tool: a function that only `run.call` performs, with the effect it declares.

Calling a tool gives an inert `Call`. Its arguments have been through JSON by then, so the body
sees the same values on the first try, after a crash and in a process of its own.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from functools import cached_property, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    overload,
)

from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from standfast.codec import Codec, canonical, storable, to_json
from standfast.declaration import check_declaration
from standfast.errors import BadTool, Misuse, NotCalled, NotStorable
from standfast.guarding import Guard
from standfast.json_values import LARGEST_VALUE, MOST_DIGITS, why_unreadable
from standfast.records import Effect, Happened, Json, NotHappened, Performed, Settles
from standfast.signature import Signature
from standfast.toolbox import Toolbox

P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B")

Before = Callable[..., Awaitable[Any]]
UndoFn = Callable[[Performed[Any, Any]], Awaitable[None]]
Probe = Callable[[Performed[Any, Any]], Awaitable[Happened | NotHappened | None]]
Confirm = bool | Callable[..., bool | str] | None

_PLAIN = (str, int, bool)
_SURELY_READ = 4000  # readers have limits for the digits of a number, none for a text of this size

unperformed: ContextVar[set[Call[Any]] | None] = ContextVar("standfast_unperformed", default=None)
"""Calls made in this step that nobody has performed yet; None outside a step."""


class Call(Generic[R]):
    """A tool and its arguments. Nothing happens until `run.call` performs it."""

    __slots__ = ("__weakref__", "_digest", "args", "guard", "raw", "tool")

    tool: Tool[..., R]
    args: dict[str, Any]  # by name, defaults filled in, as read back from `raw`
    raw: bytes  # canonical JSON of the arguments
    guard: Guard | None  # stands between what its body says and whoever reads it

    def __init__(self, tool: Tool[..., R], args: dict[str, Any], raw: bytes) -> None:
        self.tool = tool
        self.args = args
        self.raw = raw
        self._digest = ""
        self.guard = None
        made = unperformed.get()
        if made is not None:
            made.add(self)

    @property
    def digest(self) -> str:
        """16 hex digits that are the same for equal arguments."""
        if not self._digest:
            self._digest = hashlib.sha256(self.raw).hexdigest()[:16]
        return self._digest

    @property
    def what(self) -> str:
        """The same for equal calls."""
        return f"{self.tool.name}/{self.digest}"

    def __repr__(self) -> str:
        return self.shown(self.args)

    def shown(self, args: dict[str, Any]) -> str:
        """The call in a few words, with these in place of its arguments."""
        shown = ", ".join(f"{name}={value!r}" for name, value in args.items())
        return f"{self.tool.name}({shown if len(shown) <= 120 else shown[:117] + '...'})"

    if not TYPE_CHECKING:  # hidden, so that `await draft(1)` is a type error too

        def __await__(self) -> NoReturn:
            raise NotCalled(
                f"{self.tool.name}(...) was awaited, but only run.call performs a tool",
                hint=f"await run.call({self.tool.name}(...))",
            )


class Tool(Generic[P, R]):
    """A function with a declared effect. Calling it gives a `Call`; `fn` is the plain function."""

    def __init__(
        self,
        fn: Callable[P, Any],
        *,
        effect: Effect | None = None,
        before: Before | None = None,
        undo: UndoFn | None = None,
        settles: Settles = "step",
        probe: Probe | None = None,
        confirm: Confirm = None,
        process: bool = False,
        retries: int = 0,
        timeout: float | None = None,
        grace: float = 2.0,
        kind: str = "tool",
        name: str | None = None,
    ) -> None:
        self.fn: Callable[P, Any] = fn
        if not inspect.isroutine(fn):
            raise BadTool(f"@tool was given {fn!r}, which is no function", hint="decorate a def or an async def")
        update_wrapper(self, fn)
        self.name: str = fn.__name__ if name is None else name
        self.effect: Effect = effect if effect is not None else "read" if kind == "model" else "write"
        self.before = before
        self.undo = undo
        self.settles: Settles = settles
        self.probe = probe
        self.confirm: Confirm = confirm
        self.process = process
        self.retries = retries
        self.timeout = timeout
        self.grace = grace
        self.kind = kind
        self.module: str = fn.__module__
        self.qualname: str = fn.__qualname__
        check_declaration(self)
        read = self._read()
        self._positional, self._names, self._defaults = read.positional, read.names, read.defaults
        self._sorted_names = sorted(self._names)
        self._in_order = self._sorted_names == [*self._names]
        self.is_async: bool = read.is_async
        # What is exactly a word, a number or a truth value reads back as itself: no codec is needed to know that.
        kinds = [read.hints.get(name) for name in self._names]
        self._plain_types = kinds if all(kind in _PLAIN for kind in kinds) else None
        self._plain_result = read.returns if read.returns in _PLAIN else None
        self._arguments = read.arguments
        self._argument_schema = read.argument_schema
        self._result: Codec[R] = read.result

    @property
    def toolbox(self) -> Toolbox | None:
        """Where it came from, if it was made at run time and may change there."""
        return None

    @property
    def gone(self) -> bool:
        """True if its toolbox no longer has it."""
        return False

    def _read(self) -> Signature:
        return Signature(self.fn, self.name, self.before)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The call, not yet performed. NotStorable names an argument that cannot be stored."""
        given: dict[str, Any] = dict(zip(self._positional, args, strict=False))
        if kwargs:
            given.update(kwargs)
        if len(given) != len(args) + len(kwargs):  # too many, or one of them twice
            self._refuse_arguments(args, kwargs)
        if len(given) != len(self._names):
            given = {**self._defaults, **given}
        if given.keys() != self._names.keys():
            self._refuse_arguments(args, kwargs)
        return self._call(given)

    def parse(self, args: Mapping[str, Any] | str | bytes) -> Call[R]:
        """The call with arguments from JSON, as a model or a person gives them; Misuse names a bad one."""
        try:
            raw = args.encode() if isinstance(args, str) else args if isinstance(args, bytes) else storable(args)
            given = self._arguments.parse(raw or b"{}")  # providers send "" for no arguments
        except (NotStorable, UnicodeEncodeError) as error:
            raise Misuse(
                f"{self.name} cannot be called so: {error.message if isinstance(error, NotStorable) else error}",
                hint=f"its arguments are {', '.join(self._names) or 'none'}; see {self.name}.schema",
            ) from error
        return self._call({**self._defaults, **given})

    def _call(self, given: dict[str, Any]) -> Call[R]:
        arguments = self._arguments
        if self._plain_types is not None:
            args = {name: given[name] for name in self._names}
            if [type(value) for value in args.values()] == self._plain_types:
                plain = _plain_json(args if self._in_order else {name: given[name] for name in self._sorted_names})
                if plain is not None:
                    return Call(self, args, plain)
        try:
            raw = self._canonical_args(given, quiet=True)
            args = arguments.load(raw, strict=True)
        except NotStorable:  # or a type that reads its own JSON only when not strict
            raw = self.dump_args(given)
            try:
                args = arguments.load(raw)
            except NotStorable as error:
                raise self._not_storable(error, "arguments") from error
        return Call(self, args, raw)

    def _canonical_args(self, args: Mapping[str, Any], *, quiet: bool) -> bytes:
        raw = self._arguments.write({name: args[name] for name in self._sorted_names}, quiet=quiet)
        return raw if raw.count(b"{") == 1 else canonical(raw)

    def dump_args(self, args: Mapping[str, Any]) -> bytes:
        """The arguments as canonical JSON."""
        try:
            return self._canonical_args(args, quiet=False)
        except NotStorable as error:
            raise self._not_storable(error, "arguments") from error

    def load_args(self, raw: bytes) -> dict[str, Any]:
        """The arguments again, as the types the function declares."""
        return self._arguments.load(raw)

    def dump_result(self, value: R) -> bytes:
        """The result as JSON; NotStorable if it is not what the function declares."""
        if type(value) is self._plain_result and (plain := _plain_json(value)) is not None:
            return plain
        try:
            return self._result.dump(value)
        except NotStorable as error:
            raise self._not_storable(error, "result") from error

    def load_result(self, raw: bytes) -> R:
        """The result again, as the type the function declares."""
        return self._result.load(raw)

    def round_trip(self, value: R) -> tuple[bytes, R]:
        """The result as JSON, and as a new process would read it."""
        raw = self.dump_result(value)
        same = type(value) is self._plain_result and len(raw) < _SURELY_READ
        return raw, value if same else self._result.load(raw)

    @cached_property
    def inline(self) -> bool:
        """May its body run in its caller's task? An async read that asks nobody and has no limits to keep."""
        asks = callable(self.confirm) or bool(self.confirm)
        plain = self.kind in ("tool", "model") and not self.process and self.timeout is None and self.retries == 0
        return self.is_async and self.effect in ("read", "idempotent") and plain and not asks

    @cached_property
    def schema(self) -> Json:
        """The JSON schema of the arguments, described by the docstring."""
        described = inspect.getdoc(self.fn)
        return {**self._argument_schema, "description": described} if described else self._argument_schema

    @cached_property
    def result_schema(self) -> Json:
        """The JSON schema of the result."""
        return self._result.schema

    @property
    def contract(self) -> Json:
        """What must not change under a run that is resumed."""
        return {
            "name": self.name,
            "effect": self.effect,
            "schema": self._argument_schema,  # a reworded docstring is no change
            "result_schema": self.result_schema,
        }

    def same_code(self, other: Tool[..., Any]) -> bool:
        """Is the other one this tool, made anew by the same lines of code?"""

        def code(tool: Tool[..., Any]) -> list[Any]:
            return [getattr(part, "__code__", part) for part in (tool.fn, tool.before, tool.undo, tool.probe)]

        return code(self) == code(other)

    def __repr__(self) -> str:
        return f"<tool {self.name} ({self.effect})>"

    def _refuse_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        """Raise the TypeError that the plain function would raise."""
        inspect.signature(self.fn).bind(*args, **kwargs)
        raise TypeError(f"{self.name}() was given arguments that do not fit")

    def _not_storable(self, error: NotStorable, what: str) -> NotStorable:
        return NotStorable(
            f"the {what} of {self.name} cannot be stored: {error.message}", path=error.path, hint=error.hint
        )


def _plain_json(value: Any) -> bytes | None:
    """JSON of words, numbers and truth values; None if it could not be read again: the codec then names it."""
    try:
        raw = to_json(value)
    except (PydanticSerializationError, ValueError):
        return None
    if len(raw) > LARGEST_VALUE or (len(raw) > MOST_DIGITS and why_unreadable(raw, may_be_deep=False)):
        return None
    return raw


class Decorator(Protocol):
    """What `@tool(...)` gives: it turns an async or a plain function into a Tool."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...


class DecoratorFor(Protocol[R]):
    """What `@tool(undo=...)` gives: it takes functions whose result the undo was written for."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...


class Declared(TypedDict, total=False):
    """What a tool may declare besides how it is undone."""

    effect: Effect
    settles: Settles
    confirm: Confirm
    process: bool
    retries: int
    timeout: float | None
    grace: float
    kind: str
    name: str | None


@overload
def tool(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...
@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *, before: Before | None = None, undo: None = None, probe: None = None, **declared: Unpack[Declared]
) -> Decorator: ...
@overload
def tool(
    *,
    before: None = None,
    undo: Callable[[Performed[R, None]], Awaitable[None]] | None = None,
    probe: Callable[[Performed[R, None]], Awaitable[Happened | NotHappened | None]] | None = None,
    **declared: Unpack[Declared],
) -> DecoratorFor[R]: ...
@overload
def tool(
    *,
    before: Callable[..., Awaitable[B]],
    undo: Callable[[Performed[R, B]], Awaitable[None]] | None = None,
    probe: Callable[[Performed[R, B]], Awaitable[Happened | NotHappened | None]] | None = None,
    **declared: Unpack[Declared],
) -> DecoratorFor[R]: ...
def tool(fn: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
    """Make a tool of an async or plain function; BadTool if it could not keep what it declares."""

    def decorate(fn: Callable[..., Any]) -> Tool[..., Any]:
        return Tool(fn, **declared)

    return decorate if fn is None else decorate(fn)
