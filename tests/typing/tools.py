"""Tools and Logs as the type checkers see them. Checked, never run."""

from __future__ import annotations

from typing import Any, assert_type

from standfast.log import Log
from standfast.records import Happened, Json, NotHappened, Performed
from standfast.tools import Call, tool


async def old_text(path: str, text: str) -> str:
    return ""


async def put_back(p: Performed[None, str]) -> None:
    assert_type(p.before, str)
    assert_type(p.result, None)


async def did_it(p: Performed[str, Any]) -> Happened | NotHappened | None:
    return None


def is_much(amount: int) -> bool | str:
    return f"pay {amount}?"


def plain_undo(p: Performed[None, str]) -> None: ...


async def undo_that_returns(p: Performed[None, str]) -> int:
    return 1


@tool
async def draft(n: int) -> str:
    return ""


@tool
def count(words: list[str], *, limit: int = 3) -> int:
    return 0


@tool(before=old_text, undo=put_back, settles="run")
async def write_file(path: str, text: str) -> None: ...


@tool(effect="irreversible", confirm=is_much, probe=did_it)
def pay(amount: int) -> str:
    return ""


assert_type(draft(1), Call[str])
assert_type(count(["a"], limit=2), Call[int])
assert_type(write_file("a", text="b"), Call[None])
assert_type(pay(1), Call[str])
assert_type(draft.parse({}), Call[str])
assert_type(draft.load_result(b""), str)

draft("1")  # type: ignore[arg-type]
draft()  # type: ignore[call-arg]
count(["a"], 2)  # type: ignore[call-arg]
write_file("a", txt="b")  # type: ignore[call-arg]
tool(effect="destroy")  # type: ignore[call-overload]
tool(settles="later")  # type: ignore[call-overload]
tool(undo=plain_undo)  # type: ignore[arg-type]
tool(undo=undo_that_returns)  # type: ignore[arg-type]
tool(retry=3)  # type: ignore[call-overload]
tool(confirm="really?")  # type: ignore[call-overload]


async def a_call_is_not_awaited() -> None:
    await draft(1)  # type: ignore[misc]


async def the_plain_function_is_typed() -> None:
    draft.fn(1)
    draft.fn("1")  # type: ignore[arg-type]


def a_log_is_a_typed_list(log: Log[Json], numbers: Log[int]) -> None:
    assert_type(log[0], Json)
    assert_type(numbers[1:], list[int])
    for number in numbers:
        assert_type(number, int)
    numbers.append("a")  # type: ignore[arg-type]
    numbers[0] = 1  # type: ignore[index]
