"""Arguments that a person changes: what they leave out stays, at every depth; a name nobody knows is refused (R14)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.dataclasses import dataclass
from tests.helpers import held
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from standfast import Done, Handle, Need, Run, SchemaTool, WrongState, agent, ask, tool
from standfast.changed_arguments import changed, closed
from standfast.codec import JsonSchema
from standfast.testing import lab


class Inner(BaseModel):
    depth: int = 1
    width: int = 1


class Opts(BaseModel):
    amount: int = 100
    dry_run: bool = False
    note: str | None = "n"
    inner: Inner = Inner()
    more: list[Inner] = []
    by_name: dict[str, Inner] = {}
    free: dict[str, Any] = {}


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    amount: int = 100


@dataclass
class Flags:
    fast: bool = False
    slow: bool = False


class Where(TypedDict):
    street: str
    town: NotRequired[str]


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str = ""
    fee: int = 7


class Bank(BaseModel):
    kind: Literal["bank"] = "bank"
    iban: str = ""


class Nothing(BaseModel):
    pass


ORIGINAL = {
    "opts": Opts(amount=7, note="mine", inner=Inner(depth=7), more=[Inner(depth=7)], free={"a": {"b": 1}}),
    "maybe": Opts(amount=7, dry_run=True),
    "loose": Loose(amount=7),
    "flags": Flags(fast=True),
    "where": Where(street="A", town="T"),
    "method": Card(number="1", fee=1),
}

performed: list[dict[str, Any]] = []


@tool(effect="irreversible")
async def refund(opts: Opts, maybe: Opts | None, loose: Loose, flags: Flags, where: Where, method: Card | Bank) -> str:
    got = {"opts": opts, "maybe": maybe, "loose": loose, "flags": flags, "where": where, "method": method}
    performed.append(got)
    return "refunded"


@agent("refunder")
async def refunder(run: Run[Nothing]) -> Done[str]:
    return Done(await run.call(refund(**ORIGINAL)))  # type: ignore[arg-type]


@agent("asker")
async def asker(run: Run[Nothing]) -> Done[int]:
    return Done((await run.call(ask("How?", type=Opts))).amount)


@asynccontextmanager
async def asking(program: Any = refunder) -> AsyncIterator[tuple[Handle[Any], Need]]:
    performed.clear()
    async with lab([refunder, asker]) as runs:
        run = await runs.start(program, Nothing())
        (need,) = (await held(run, "asks")).needs
        yield run, need


SLIPS: list[tuple[dict[str, Any], str, str]] = [
    ({"opts": {"amout": 5}}, "opts", "amout"),
    ({"maybe": {"amout": 5}}, "maybe", "amout"),
    ({"opts": {"inner": {"dept": 5}}}, "opts.inner", "dept"),
    ({"opts": {"more": [{"dept": 5}]}}, "opts.more.0", "dept"),
    ({"opts": {"by_name": {"x": {"dept": 5}}}}, "opts.by_name.x", "dept"),
    ({"flags": {"fst": False}}, "flags", "fst"),
    ({"where": {"twon": "X"}}, "where", "twon"),
    ({"method": {"fe": 5}}, "method", "fe"),
    ({"method": {"iban": "x", "fee": 5}}, "method", "fee"),
    ({"amount": 5}, "", "amount"),
]


@pytest.mark.parametrize(("args", "path", "name"), SLIPS, ids=[f"{path}.{name}" for _, path, name in SLIPS])
async def test_a_slip_at_any_depth_performs_nothing_and_is_named(args: dict[str, Any], path: str, name: str) -> None:
    """A model would drop the name, and the call as it was would be performed."""
    async with asking() as (run, need):
        with pytest.raises(WrongState) as refused:
            await run.approve(need.call, args)
        assert name in str(refused.value)
        assert path in str(refused.value)
        assert (await held(run, "asks")).needs[0].id == need.id
        assert performed == []


async def test_what_is_left_out_stays_at_every_level_and_the_record_says_what_was_approved() -> None:
    args = {
        "opts": {"inner": {"width": 5}, "note": None, "free": {"c": 1}, "more": [{"width": 5}]},
        "maybe": {"amount": 5},
        "loose": {"colour": "red"},
        "flags": {"slow": True},
        "where": {"street": "B"},
        "method": {"number": "2"},
    }
    async with asking() as (run, need):
        assert await run.approve(need.call, args)
        assert await run.result(timeout=120) == "refunded"
        events = [event async for event in run.events()]
    (got,) = performed
    assert got["opts"] == Opts(amount=7, note=None, inner=Inner(depth=7, width=5), more=[Inner(width=5)], free={"c": 1})
    assert got["maybe"] == Opts(amount=5, dry_run=True)
    assert got["loose"] == Loose(amount=7, colour="red")  # type: ignore[call-arg]
    assert got["flags"] == Flags(fast=True, slow=True)
    assert got["where"] == {"street": "B", "town": "T"}
    assert got["method"] == Card(number="2", fee=1)
    (answered,) = [event for event in events if event.type == "answered"]
    assert answered.value["opts"]["inner"] == {"depth": 7, "width": 5}
    assert answered.value["maybe"]["dry_run"] is True
    assert answered.value["method"] == {"kind": "card", "number": "2", "fee": 1}
    (started,) = [event for event in events if event.type == "call_started"]
    assert (started.args["opts"]["amount"], started.args["maybe"]["amount"]) == (7, 5)


async def test_another_kind_of_object_replaces_the_one_that_was_asked_for() -> None:
    async with asking() as (run, need):
        assert await run.approve(need.call, {"method": {"kind": "bank", "iban": "x"}, "maybe": None})
        await run.result(timeout=120)
    assert (performed[0]["method"], performed[0]["maybe"]) == (Bank(iban="x"), None)


async def test_an_answer_with_a_slip_is_no_answer() -> None:
    """The question's type would drop the name, and a default would be the answer."""
    async with asking(asker) as (run, need):
        with pytest.raises(WrongState, match="amout"):
            await run.answer(need.call, {"amout": 5})
        assert await run.answer(need.call, {"amount": 5})
        assert await run.result(timeout=120) == 5


async def test_what_a_person_performs_is_as_strict() -> None:
    async with lab([refunder]) as runs:
        run = await runs.start(refunder, Nothing())
        await held(run, "asks")
        await run.take_over()
        with pytest.raises(WrongState, match="amout"):
            await run.perform("refund", {**_plain(), "opts": {"amout": 5}})


def _plain() -> dict[str, Any]:
    return {"maybe": None, "loose": {}, "flags": {}, "where": {"street": "A"}, "method": {"kind": "bank"}}


async def _remote(**given: Any) -> str:
    performed.append(given)
    return "ok"


REMOTE = SchemaTool(
    "remote",
    "Made from a JSON schema that says nothing of further names.",
    {
        "properties": {"amount": {"type": "integer"}, "opts": {"properties": {"deep": {"type": "integer"}}}},
        "required": ["amount"],
    },
    _remote,
    effect="irreversible",
)


@agent("caller", tools=[REMOTE])
async def caller(run: Run[Nothing]) -> Done[str]:
    return Done(await run.call(REMOTE(amount=100, opts={"deep": 1, "own": 2})))


@pytest.mark.parametrize("args", [{"amout": 5}, {"opts": {"dep": 5}}], ids=str)
async def test_a_slip_in_the_arguments_of_a_tool_made_of_a_schema_is_refused_too(args: dict[str, Any]) -> None:
    performed.clear()
    async with lab([caller]) as runs:
        run = await runs.start(caller, Nothing())
        (need,) = (await held(run, "asks")).needs
        with pytest.raises(WrongState):
            await run.approve(need.call, args)
        assert await run.approve(need.call, {"amount": 5})
        await run.result(timeout=120)
    assert performed == [{"amount": 5, "opts": {"deep": 1, "own": 2}}], "names that the call had itself are known"


COMPOSED: dict[str, Any] = {
    "properties": {
        "who": {"$ref": "#/$defs/Person"},
        "base": {"$ref": "#/$defs/Base"},
        "either": {"$ref": "#/$defs/E"},
    },
    "$defs": {
        "Base": {"type": "object", "properties": {"name": {"type": "string"}}},
        "Person": {"allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"age": {"type": "integer"}}}]},
        "E": {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    },
}


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"who": {"name": "x", "age": 1}}, True),
        ({"who": {"name": "x", "aeg": 1}}, False),
        ({"base": {"name": "x"}}, True),
        ({"base": {"nme": "x"}}, False),
        ({"either": {"a": 1, "b": {"any": "thing"}}}, True),
        ({"either": {"a": 1, "c": 2}}, False),
    ],
    ids=str,
)
def test_a_schema_that_is_put_together_of_parts_is_closed_as_a_whole(value: dict[str, Any], *, fits: bool) -> None:
    if fits:
        JsonSchema.validate(closed(COMPOSED), value)
    else:
        with pytest.raises(WrongState):
            JsonSchema.validate(closed(COMPOSED), value)


def test_a_schema_that_refers_to_itself_is_followed_as_far_as_the_value_goes() -> None:
    tree = {
        "properties": {"at": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"properties": {"n": {}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}}},
    }
    after = changed({"at": {"n": 1, "next": {"n": 2, "next": None}}}, {"at": {"next": {"n": 3}}}, tree)
    assert after == {"at": {"n": 1, "next": {"n": 3, "next": None}}}
    with pytest.raises(WrongState):
        JsonSchema.validate(closed(tree), {"at": {"next": {"m": 3}}})


def test_a_schema_that_goes_round_in_a_circle_ends() -> None:
    circle = {"properties": {"at": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert changed({"at": {"a": 1}}, {"at": {"b": 2}}, circle) == {"at": {"b": 2}}
