"""A tool declares what it does; calling it performs nothing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field

from standfast.errors import BadTool, Misuse, NotCalled, NotStorable
from standfast.log import Log
from standfast.records import Performed
from standfast.tools import Call, Tool, tool, unperformed

if TYPE_CHECKING:
    Unknown = Performed[Any, Any]


class Address(BaseModel):
    street: str
    tags: dict[str, int] = {}


@dataclass
class Invoice:
    number: int


@tool
async def send(to: Address, text: str = "hello", *, on: date | None = None) -> Invoice:
    """Send a letter."""
    return Invoice(1)


@tool(effect="read", name="look-up")
def look_up(path: str, depth: int = 1):  # type: ignore[no-untyped-def]  # noqa: ANN201 - results may go untyped
    return path


async def remember(to: Address, text: str, on: date | None) -> str:
    return "before"


async def take_back(call: Performed[Any, Any]) -> None:
    return None


def test_a_call_is_inert_and_holds_its_arguments_by_name() -> None:
    """R2: only run.call performs a tool."""
    call = send(Address(street="Main"), on=date(2026, 5, 1))
    assert call.args == {"to": Address(street="Main"), "text": "hello", "on": date(2026, 5, 1)}
    assert call.tool is send
    assert call.raw == b'{"on":"2026-05-01","text":"hello","to":{"street":"Main","tags":{}}}'
    assert repr(look_up("a")) == "look-up(path='a', depth=1)"
    assert len(call.digest) == 16


async def test_awaiting_a_call_says_what_to_write_instead() -> None:
    with pytest.raises(NotCalled, match=r"await run\.call\(send\(\.\.\.\)\)"):
        await send(Address(street="Main"))  # type: ignore[misc]


async def test_the_plain_function_stays_reachable() -> None:
    assert await send.fn(Address(street="Main")) == Invoice(1)
    assert look_up.fn("a") == "a"
    assert (send.is_async, look_up.is_async) == (True, False)


def test_equal_arguments_have_equal_digests_whatever_their_order() -> None:
    """Ruling "A call's key": a hash of canonical arguments."""
    one = send(Address(street="Main", tags={"a": 1, "b": 2}), "x")
    two = send(text="x", to=Address(street="Main", tags={"b": 2, "a": 1}))
    assert one.digest == two.digest
    assert list(one.args["to"].tags) == list(two.args["to"].tags)
    assert one.digest != send(Address(street="Main"), "x").digest
    assert look_up("a").raw == look_up(path="a", depth=1).raw == b'{"depth":1,"path":"a"}'


def test_arguments_are_those_at_the_time_of_the_call() -> None:
    address = Address(street="Main")
    call = send(address)
    address.street = "changed"
    assert call.args["to"].street == "Main"


def test_arguments_come_back_typed() -> None:
    call = send(Address(street="Main"), on=date(2026, 5, 1))
    assert send.load_args(call.raw) == call.args
    assert send.dump_args(call.args) == call.raw


def test_results_come_back_typed_and_are_checked() -> None:
    assert send.load_result(send.dump_result(Invoice(7))) == Invoice(7)
    assert look_up.load_result(look_up.dump_result({"a": (1,)})) == {"a": [1]}
    with pytest.raises(NotStorable, match="result of send"):
        send.dump_result("nothing")  # type: ignore[arg-type]
    with pytest.raises(NotStorable):
        send.dump_result(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("args", "path"),
    [
        (("a", "not a number"), "depth"),
        ((None,), "path"),
        ((object(),), "path"),
        ((b"\xff",), "path"),
    ],
)
def test_arguments_that_cannot_be_stored_are_named_at_the_call(args: tuple[Any, ...], path: str) -> None:
    """Bad input: arguments that cannot be stored."""
    with pytest.raises(NotStorable) as caught:
        look_up(*args)
    assert caught.value.path == path


def test_an_untyped_argument_that_cannot_be_stored_is_named() -> None:
    @tool
    def anything(value) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - arguments may go untyped
        return None

    for wrong, path in (({"x": [object()]}, "value.x.0"), (math.nan, "value"), ([math.inf], "value.0")):
        with pytest.raises(NotStorable) as caught:
            anything(wrong)
        assert caught.value.path == path
    assert anything([1, None]).args == {"value": [1, None]}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        (("a", 1, 2), {}),
        (("a",), {"path": "b"}),
        (("a",), {"other": 1}),
        ((), {"depth": 1, "other": 1}),
    ],
)
def test_a_call_that_python_would_refuse_is_refused(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        look_up(*args, **kwargs)


def test_keyword_only_stays_keyword_only() -> None:
    with pytest.raises(TypeError):
        send(Address(street="a"), "b", date(2026, 1, 1))  # type: ignore[misc]


@pytest.mark.parametrize("given", ['{"to":{"street":"Main"}}', b'{"to":{"street":"Main"}}', {"to": {"street": "Main"}}])
def test_arguments_from_json_are_parsed(given: Any) -> None:
    call = send.parse(given)
    assert call.args == {"to": Address(street="Main"), "text": "hello", "on": None}
    assert call.digest == send(Address(street="Main")).digest


def test_no_arguments_may_come_as_an_empty_string() -> None:
    @tool
    def ping() -> None: ...

    assert ping.parse("").args == {}
    assert ping().raw == b"{}"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "to"),
        ({"to": {"street": 3}}, "to.street"),
        ({"to": {"street": "Main"}, "colour": 1}, "colour"),
        ({"to": {"street": "Main"}, "text": object()}, "send"),
        ("{", "send"),
        ("[]", "send"),
    ],
)
def test_bad_arguments_from_json_are_named(given: Any, named: str) -> None:
    with pytest.raises(Misuse, match=named) as caught:
        send.parse(given)
    assert "to, text, on" in caught.value.hint


def test_the_schema_is_what_a_model_needs() -> None:
    @tool(effect="read")
    async def search(query: Annotated[str, Field(description="words")], limit: int = 10) -> list[str]:
        """Find pages."""
        return []

    schema: Any = search.schema
    assert schema["description"] == "Find pages."
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"]["description"] == "words"
    assert schema["properties"]["limit"]["default"] == 10
    assert schema["additionalProperties"] is False
    assert search.result_schema == {"items": {"type": "string"}, "type": "array"}


def test_a_contract_tells_changed_tools_and_not_reworded_ones() -> None:
    """R16: tool schemas and effects are compared on resume."""

    def variant(doc: str, effect: Any, type_: Any) -> Tool[..., Any]:
        def fetch(x: Any) -> None: ...

        fetch.__doc__ = doc
        fetch.__annotations__["x"] = type_
        return tool(effect=effect)(fetch)

    first = variant("a", "read", int).contract
    assert first == variant("b", "read", int).contract
    assert first != variant("a", "write", int).contract
    assert first != variant("a", "read", str).contract


def test_defaults_of_a_declaration() -> None:
    assert (send.effect, send.settles, send.retries, send.timeout, send.grace, send.kind) == (
        *("write", "step", 0, None),
        *(2.0, "tool"),
    )
    assert (send.module, send.qualname, send.process) == (__name__, "send", False)


def gen() -> Iterator[int]:
    yield 1


async def agen() -> AsyncIterator[int]:
    yield 1


def starred(*args: int) -> None: ...


def double_starred(**kwargs: int) -> None: ...


def positional(a: int, /) -> None: ...


def wrong_default(a: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013 - the case


def odd_type(a: asyncio.Event) -> None: ...


def odd_result() -> asyncio.Event: ...  # type: ignore[empty-body]


def unknown_type(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def plain(to: Address, text: str, on: date | None) -> None: ...


async def takes_nothing() -> None: ...


async def other_arguments(x: int) -> None: ...


class Asks:
    """A rule that can be called, and would have to be awaited."""

    async def __call__(self, to: Address, text: str, on: date | None) -> bool:
        return True


@pytest.mark.parametrize(
    ("fn", "declared", "why"),
    [
        (plain, {"effect": "read", "undo": take_back}, "undo="),
        (plain, {"effect": "idempotent", "undo": take_back}, "undo="),
        (plain, {"effect": "read", "before": remember}, "before="),
        (plain, {"effect": "read", "settles": "run"}, "settles="),
        (plain, {"retries": 1}, "retries="),
        (plain, {"effect": "irreversible", "retries": 1}, "retries="),
        (plain, {"effect": "read", "retries": -1}, "retries=-1 is negative"),
        (plain, {"retries": -1}, "retries=-1 is negative"),
        (plain, {"grace": -0.5}, "grace=-0.5 is negative"),
        (plain, {"timeout": 0}, "timeout=0 "),
        (plain, {"timeout": -1}, "timeout=-1 "),
        (plain, {"kind": "model", "effect": "write"}, "effect='write' on kind=\"model\""),
        (plain, {"kind": "model", "effect": "irreversible"}, "effect='irreversible' on kind=\"model\""),
        (plain, {"kind": "model", "undo": take_back}, "undo="),
        (plain, {"confirm": other_arguments}, "confirm= is an async"),
        (plain, {"confirm": Asks()}, "confirm= is an async"),
        (plain, {"confirm": "really?"}, "confirm='really\\?' is no rule"),
        (plain, {"effect": "destroy"}, "effect='destroy'"),
        (plain, {"settles": "later"}, "settles='later'"),
        (plain, {"undo": plain}, "undo= is not an async"),
        (plain, {"before": plain}, "before= is not an async"),
        (plain, {"probe": plain}, "probe= is not an async"),
        (plain, {"before": other_arguments}, "before= does not fit"),
        (plain, {"name": ""}, "no name"),
        (plain, {"name": "two words"}, "no name"),
        (gen, {}, "generator"),
        (agen, {}, "generator"),
        (starred, {}, r"\*args"),
        (double_starred, {}, r"\*\*kwargs"),
        (positional, {}, "a: "),
        (wrong_default, {}, "default of a"),
        (odd_type, {}, "parameter a"),
        (odd_result, {}, "its result"),
        (unknown_type, {}, "Missing"),
        (3, {}, "no function"),
        (plain, {"timeout": "x"}, "timeout"),
        (plain, {"grace": None}, "grace"),
        (plain, {"retries": 1.5, "effect": "read"}, "retries"),
        (plain, {"name": 5}, "no name"),
        (plain, {"confirm": 5}, "confirm="),
        (plain, {"confirm": "Really?"}, "confirm="),
        (plain, {"kind": "zz"}, "kind='zz'"),
        (plain, {"undo": takes_nothing}, "undo= does not fit"),
        (plain, {"probe": takes_nothing}, "probe= does not fit"),
        (plain, {"effect": "irreversible", "undo": take_back}, "undo="),
    ],
)
def test_a_tool_that_could_not_keep_its_promises_is_refused(fn: Any, declared: dict[str, Any], why: str) -> None:
    """R14, and bad input: undo on a read tool."""
    with pytest.raises(BadTool, match=why) as caught:
        tool(**declared)(fn)
    assert caught.value.hint


def test_what_write_tools_may_declare_is_accepted() -> None:
    declared = tool(before=remember, undo=take_back, settles="run", probe=take_back)(plain)  # type: ignore[arg-type]
    assert (declared.before, declared.undo, declared.settles) == (remember, take_back, "run")
    assert tool(effect="read", retries=3)(plain).retries == 3


def test_a_model_is_a_read_unless_it_says_otherwise() -> None:
    """R3, R14: what is cut and repeated like a model's stream has no effect of its own."""
    assert tool(kind="model")(plain).effect == "read"
    assert tool(kind="model", retries=2)(plain).retries == 2
    assert tool(kind="model", effect="idempotent")(plain).effect == "idempotent"


def test_calls_of_a_step_are_known_until_performed() -> None:
    """Ruling "A Call never performed"."""
    assert unperformed.get() is None
    look_up("outside")
    made: set[Call[Any]] = set()
    token = unperformed.set(made)
    try:
        first, second = look_up("a"), look_up.parse({"path": "a"})
    finally:
        unperformed.reset(token)
    assert made == {first, second}
    assert first.digest == second.digest


def test_a_log_may_be_an_argument() -> None:
    @tool(effect="read")
    def ask(log: Log[Any]) -> str:
        return ""

    log: Log[Any] = Log([{"role": "user"}])
    call = ask(log)
    log.append("later")
    assert call.args["log"] == [{"role": "user"}]
    assert call.raw == b'{"log":[{"role":"user"}]}'


async def takes_two(p: Performed[None, None], reason: str) -> None: ...


async def needs_a_name(p: Performed[None, None], *, reason: str) -> None: ...


async def takes_nothing() -> None: ...


async def says_yes_or_no(p: Performed[None, None]) -> bool:
    return True


@pytest.mark.parametrize("what", ["undo", "probe"])
@pytest.mark.parametrize("fn", [takes_two, needs_a_name, takes_nothing])
def test_a_hook_that_could_not_be_called_is_refused_where_it_is_declared(what: str, fn: Any) -> None:
    """Found now, not when something is to be undone (R8)."""

    async def write(path: str) -> None: ...

    hook: Any = {what: fn}
    with pytest.raises(BadTool, match=f"{what}= does not fit") as caught:
        Tool(write, **hook)
    assert "Performed" in caught.value.hint


def test_a_probe_that_says_yes_or_no_is_refused_where_it_is_declared() -> None:
    async def write(path: str) -> None: ...

    probe: Any = says_yes_or_no
    with pytest.raises(BadTool, match="bool") as caught:
        Tool(write, probe=probe)
    assert "NotHappened()" in caught.value.hint


class Undoes:
    async def undo(self, p: Performed[Any, Any]) -> None: ...

    async def __call__(self, *given: Any) -> None: ...


async def anything(p: object, more: int = 0) -> None: ...


async def by_a_name_that_only_a_checker_knows(p: Unknown) -> None: ...


@pytest.mark.parametrize(
    "fn",
    [Undoes().undo, Undoes(), anything, by_a_name_that_only_a_checker_knows, partial(takes_two, reason="x")],
    ids=["method", "object", "anything", "unknown", "partial"],
)
def test_hooks_that_can_be_called_stay_as_they_are(fn: Any) -> None:
    async def write(path: str) -> None: ...

    Tool(write, undo=fn, probe=fn)


def test_a_before_that_does_not_take_the_tools_arguments_names_them() -> None:
    async def write(path: str, text: str) -> None: ...

    async def before(path: str) -> str:
        return path

    with pytest.raises(BadTool, match="before= does not fit") as caught:
        Tool(write, before=before)
    assert "path, text" in caught.value.hint
