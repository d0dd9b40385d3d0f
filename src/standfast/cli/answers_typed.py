"""A need put before a person in the terminal, and what they type about it."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from standfast.cli.words import choice_words, short
from standfast.errors import Misuse
from standfast.handle import Handle
from standfast.records import Answer, Need


def choices_lines(need: Need) -> list[str]:
    """The need with its choices, numbered."""
    lines = [f"⌨ needs you: {need.kind}: {need.words}"]
    lines += [f"    {n}  {choice_words(need, choice, '')[0]}" for n, choice in enumerate(need.choices, 1)]
    if need.kind == "approval":
        lines.append("    or type changed arguments as a JSON object")
    lines.append("    type a number, then Enter:" if need.choices else "    type the answer, then Enter:")
    return lines


async def typed_answer(run: Handle[Any], need: Need, typed: str, *, by: str) -> Answer:
    """Send back what was typed: a number of a choice, changed arguments, or the answer itself."""
    if typed.isdigit() and 1 <= int(typed) <= len(need.choices):
        return await run.choose(need, need.choices[int(typed) - 1], by=by)
    if need.kind == "approval" and typed.startswith("{") and need.call is not None:
        return await run.approve(need.call, _json(typed), by=by)
    if need.kind == "question" and need.call is not None and typed:
        meant: list[Any] = [option for option in need.choices if str(option) == typed] or [typed]
        try:
            return await run.answer(need.call, meant[0], by=by)
        except Misuse as first:
            try:
                return await run.answer(need.call, _json(typed), by=by)
            except Misuse:
                raise first from None  # what is wrong with it as text says more
    raise Misuse(f"{short(typed)!r} is none of the choices", hint="type the number of one")


def _json(typed: str) -> Any:
    try:
        return from_json(typed, allow_inf_nan=False)
    except ValueError as error:
        raise Misuse(f"this is not JSON: {error}", hint="nothing was changed") from error
