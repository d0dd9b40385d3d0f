"""Tools made from a JSON schema keep every promise of a tool (R14, R15, R16)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import (
    Agent,
    BadTool,
    CallFailed,
    Done,
    Misuse,
    Performed,
    Run,
    SchemaTool,
    Tool,
    Toolbox,
    agent,
    idempotency_key,
)
from standfast.testing import lab

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer", "minimum": 1}},
    "required": ["path"],
}


async def look(**arguments: Any) -> Any:
    return {"seen": arguments}


def make(name: str = "look", schema: dict[str, Any] = SCHEMA, fn: Any = look, **declared: Any) -> SchemaTool[Any]:
    return SchemaTool(name, "Look at a path.", schema, fn, **declared)


class State(BaseModel):
    path: str = "/"


# --- arguments ---------------------------------------------------------------------------------------


def test_its_schema_is_what_it_was_given_with_its_description() -> None:
    one = make()
    assert one.schema == {**SCHEMA, "title": "look", "description": "Look at a path."}
    assert isinstance(one, Tool)


def test_equal_arguments_have_one_digest_whatever_their_order() -> None:
    one = make()
    assert one(path="/", depth=1).digest == one.parse('{"depth": 1, "path": "/"}').digest
    assert one(path="/").raw == b'{"path":"/"}'


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"path": 5}, "argument path"),
        ({"path": "/", "depth": 0}, "argument depth"),
        ({}, "'path' is a required property"),
        ({"path": "/", "depth": float("nan")}, "depth"),
        ("[1]", "must be an object"),
        ("{nonsense", "no JSON"),
        ({"path": object()}, "object"),
    ],
)
def test_a_bad_argument_is_named(arguments: Any, named: str) -> None:
    with pytest.raises(Misuse, match="look cannot be called so") as caught:
        make().parse(arguments)
    assert named in caught.value.message
    assert "path, depth" in caught.value.hint


def test_arguments_go_by_name() -> None:
    with pytest.raises(Misuse, match="by name"):
        make()("/")


def test_a_closed_schema_refuses_an_unknown_argument() -> None:
    with pytest.raises(Misuse, match="deep"):
        make(schema={**SCHEMA, "additionalProperties": False})(path="/", deep=1)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array"}, "array"),
        ({"type": "nonsense"}, "nonsense"),
        ({"properties": {"a": {"minimum": "x"}}}, "x"),
    ],
)
def test_a_schema_that_is_none_is_refused_at_once(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(BadTool, match=why):
        make(schema=schema)


def test_a_schema_is_never_looked_up_on_the_net() -> None:
    one = make(schema={"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}})
    with pytest.raises(BadTool, match="refers to"):
        one(a=1)


def test_declarations_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadTool, match="undo"):
        make(effect="read", undo=look)


# --- in a run ------------------------------------------------------------------------------------------


async def test_a_run_performs_it_with_a_key_and_undoes_it() -> None:
    """R8, R15."""
    keys: list[str] = []
    undone: list[Any] = []

    async def put(**arguments: Any) -> Any:
        keys.append(idempotency_key())
        return len(arguments)

    async def take_back(p: Performed[Any, None]) -> None:
        undone.append((p.args, p.result, p.key == keys[0]))

    put_tool = make("put", fn=put, undo=take_back, settles="run")

    @agent("putter")
    async def putter(run: Run[State]) -> Done[Any] | None:
        assert await run.call(put_tool(path="/", depth=2)) == 2
        raise RuntimeError("held here")

    async with lab([putter]) as runs:
        run = await runs.start(putter, State())
        await held(run, "error")
        assert await run.cancel()
        receipt = await run.settled()
    assert [u.outcome for u in receipt.undone] == ["undone"]
    assert undone == [({"path": "/", "depth": 2}, 2, True)]


async def test_a_person_may_change_its_arguments_but_not_against_its_schema() -> None:
    """R14."""
    asked = make(confirm=True)

    @agent("asker")
    async def asker(run: Run[State]) -> Done[Any]:
        return Done(await run.call(asked(path="/", extra=1)))

    async with lab([asker]) as runs:
        run = await runs.start(asker, State())
        view = await held(run, "asks")
        call = view.needs[0].call
        assert call is not None
        with pytest.raises(Misuse, match="depth"):
            await run.approve(call, args={"depth": "much"})
        assert await run.approve(call, args={"path": "/tmp"})
        assert await run.result() == {"seen": {"path": "/tmp", "extra": 1}}


async def test_its_error_reaches_the_step_as_callfailed() -> None:
    async def fail(**arguments: Any) -> Any:
        raise ValueError("not today")

    failing = make(fn=fail, effect="read")

    @agent("failing")
    async def step(run: Run[State]) -> Done[str]:
        try:
            await run.call(failing(path="/"))
        except CallFailed as error:
            return Done(f"{error.type}: {error.message}")
        return Done("?")

    async with lab([step]) as runs:
        assert await (await runs.start(step, State())).result() == "ValueError: not today"


# --- toolboxes -------------------------------------------------------------------------------------------


class Box(Toolbox):
    def __init__(self) -> None:
        self.look = make(toolbox=self, effect="read")
        self.refreshed = 0
        self.change: Any = None

    @property
    def tools(self) -> list[SchemaTool[Any]]:
        return [self.look]

    async def refresh(self) -> None:
        self.refreshed += 1
        self.change()


def boxed(box: Box) -> Agent[State, Any]:
    """An agent that holds itself after the first step, until its box is said to change."""

    @agent("boxed")
    async def step(run: Run[State]) -> Done[Any] | None:
        if run.step == 0:
            await run.call(box.look(path="/"))
            return None
        if box.change is None:
            raise RuntimeError("held here")
        return Done(await run.call(box.look.parse({"path": run.state.path})))

    return step


def test_an_agent_that_names_a_toolbox_lists_its_tools_in_its_contract() -> None:
    assert set(boxed(Box()).tools) == {"look"}


@pytest.mark.parametrize("how", ["schema", "gone", "effect"])
async def test_a_tool_that_changed_under_a_paused_run_holds_it_as_stale(how: str) -> None:
    """R16."""
    box = Box()
    one = boxed(box)

    def change() -> None:
        box.revision += 1
        if how == "gone":
            box.look.vanish()
        elif how == "effect":
            box.look.describe("Look.", SCHEMA, effect="idempotent")
        else:
            box.look.describe("Look.", {**SCHEMA, "required": ["path", "depth"]})

    async with lab([one]) as runs:
        run = await runs.start(one, State())
        await held(run, "error")
        assert box.refreshed == 0
        box.change = change
        assert await run.resume()
        view = await held(run, "stale")
        assert "tool look" in str(view.waiting_for)
        assert box.refreshed == 1
        if how == "effect":
            box.change = lambda: None
            assert await run.resume(accept_stale=True)
            assert await run.result() == {"seen": {"path": "/"}}


async def test_a_reworded_description_is_no_change() -> None:
    box = Box()
    one = boxed(box)

    def change() -> None:
        box.revision += 1
        box.look.describe("Look, in other words.", SCHEMA)

    async with lab([one]) as runs:
        run = await runs.start(one, State())
        await held(run, "error")
        box.change = change
        assert await run.resume()
        assert await run.result() == {"seen": {"path": "/"}}


async def test_a_toolbox_that_cannot_be_looked_at_holds_the_run_until_it_can() -> None:
    """R16: an error, not a difference: nothing has to be accepted."""
    box = Box()
    one = boxed(box)

    def refuse() -> None:
        raise RuntimeError("no such server")

    async with lab([one]) as runs:
        run = await runs.start(one, State())
        await held(run, "error")
        box.change = refuse
        assert await run.resume()
        await eventually(lambda: box.refreshed == 1)
        assert "no such server" in (await held(run, "error")).error
        box.change = lambda: None
        assert await run.resume()
        assert await run.result() == {"seen": {"path": "/"}}


async def test_two_toolboxes_with_one_name_are_refused() -> None:
    first, second = Box(), Box()

    @agent("two boxes", tools=[*first.tools, *second.tools])
    async def two(run: Run[State]) -> Done[None]:
        return Done(None)

    with pytest.raises(BadTool, match="two tools called 'look'"):
        _ = two.tools
