"""What a tool declares: refused where it could not be kept (R14)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from standfast.errors import BadTool
from standfast.records import Effect, Settles
from standfast.signature import bad_tool

if TYPE_CHECKING:
    from standfast.tool import Tool

_EFFECTS = get_args(Effect)
_SETTLES = get_args(Settles)
_HARMLESS = ("read", "idempotent")  # may be cut and issued again


def check_declaration(tool: Tool[..., Any]) -> None:
    """Return if the tool can keep what it declares; BadTool says what it cannot."""

    def bad(why: str, hint: str) -> BadTool:
        return bad_tool(tool.name, why, hint)

    if not tool.name or any(c.isspace() for c in tool.name):
        raise BadTool(f"{tool.name!r} is no name for a tool", hint="a name is not empty and has no spaces")
    if tool.effect not in _EFFECTS:
        raise bad(f"effect={tool.effect!r} is unknown", f"one of {', '.join(_EFFECTS)}")
    if tool.settles not in _SETTLES:
        raise bad(f"settles={tool.settles!r} is unknown", f"one of {', '.join(_SETTLES)}")
    if inspect.isgeneratorfunction(tool.fn) or inspect.isasyncgenfunction(tool.fn):
        raise bad("it is a generator", "return the whole result, and say(text) what should be seen live")
    if tool.kind == "model" and tool.effect not in _HARMLESS:
        raise bad(
            f'effect={tool.effect!r} on kind="model"',
            'a model is cut and issued again; leave one of them out, or say effect="idempotent" if that is harmless',
        )
    for name in ("retries", "grace"):
        if getattr(tool, name) < 0:
            raise bad(f"{name}={getattr(tool, name)!r} is negative", "0 is the least")
    if tool.timeout is not None and tool.timeout <= 0:
        raise bad(f"timeout={tool.timeout!r} leaves it no time", "give seconds, or leave it out for no limit")
    _check_effect(tool, bad)
    for what, given in (("before", tool.before), ("undo", tool.undo), ("probe", tool.probe)):
        if given is not None and not _is_async(given):
            raise bad(f"{what}= is not an async function", f"write it as async def {what}(...)")
    rule: Any = tool.confirm
    if callable(rule) and _is_async(rule):
        raise bad("confirm= is an async function", "write it as a plain def: what it needs to know is in the arguments")
    if not callable(rule) and rule is not None and not isinstance(rule, bool):
        raise bad(
            f"confirm={rule!r} is no rule", "give True, False, or a function of the arguments: bool or a question"
        )


def _check_effect(tool: Tool[..., Any], bad: Callable[[str, str], BadTool]) -> None:
    if tool.effect in _HARMLESS:
        for what, given in (("before", tool.before), ("undo", tool.undo)):
            if given is not None:
                raise bad(f"{what}= on effect={tool.effect!r}", 'only effect="write" has something to undo')
        if tool.settles != "step":
            raise bad(f"settles= on effect={tool.effect!r}", 'only effect="write" stays in flight')
    elif tool.retries:
        raise bad(
            f"retries= on effect={tool.effect!r}",
            'it could act twice; say effect="idempotent" if repeating it with the same key is harmless',
        )


def _is_async(fn: object) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
