"""What a tool declares about itself: BadTool where it could not keep that, at once and not in the middle of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from standfast.errors import BadTool
from standfast.records import NO_TOOLS, Effect, Settles
from standfast.signature import bad_tool

if TYPE_CHECKING:
    from standfast.tool import Tool

_EFFECTS = get_args(Effect)
_SETTLES = get_args(Settles)
_KINDS = ("tool", "model")


def check_declaration(tool: Tool[..., Any]) -> None:
    """BadTool if the tool could not keep its promises."""
    name: Any = tool.name
    if not isinstance(name, str) or not name or any(c.isspace() for c in name):
        raise BadTool(f"{name!r} is no name for a tool", hint="a name is not empty and has no spaces")
    for what, given, known in (("effect", tool.effect, _EFFECTS), ("settles", tool.settles, _SETTLES)):
        if given not in known:
            raise bad_tool(name, f"{what}={given!r} is unknown", f"one of {', '.join(known)}")
    own = tool.kind in NO_TOOLS and name == tool.kind  # the calls that standfast itself performs
    if tool.kind not in _KINDS and not own:
        raise bad_tool(name, f"kind={tool.kind!r} is unknown", f"one of {', '.join(_KINDS)}")
    if inspect.isgeneratorfunction(tool.fn) or inspect.isasyncgenfunction(tool.fn):
        raise bad_tool(name, "it is a generator", "return the whole result, and say(text) what should be seen live")
    confirm: Any = tool.confirm
    if not (confirm is None or isinstance(confirm, bool) or callable(confirm)):
        hint = "give True, False, or a function of the arguments that gives True or the question"
        raise bad_tool(name, f"confirm={confirm!r} decides nothing", hint)
    _check_effect(tool)
    _check_numbers(tool)
    for what, fn in (("before", tool.before), ("undo", tool.undo), ("probe", tool.probe)):
        if fn is not None and not _is_async(fn):
            raise bad_tool(name, f"{what}= is not an async function", f"write it as async def {what}(...)")
        if fn is not None and what != "before" and not _takes_one(fn):
            raise bad_tool(name, f"{what}= does not fit", f"it takes the call: async def {what}(performed)")


def _check_effect(tool: Tool[..., Any]) -> None:
    effect = tool.effect
    if effect in ("read", "idempotent"):
        for what, given in (("before", tool.before), ("undo", tool.undo)):
            if given is not None:
                hint = 'only effect="write" has something to undo'
                raise bad_tool(tool.name, f"{what}= on effect={effect!r}", hint)
        if tool.settles != "step":
            raise bad_tool(tool.name, f"settles= on effect={effect!r}", 'only effect="write" stays in flight')
        return
    if effect == "irreversible" and tool.undo is not None:
        hint = 'say effect="write" if it can be taken back, with confirm=True if it should ask first'
        raise bad_tool(tool.name, f"undo= on effect={effect!r}", hint)
    if tool.retries and tool.kind != "model":
        raise bad_tool(
            tool.name,
            f"retries= on effect={effect!r}",
            'it could act twice; say effect="idempotent" if repeating it with the same key is harmless',
        )


def _check_numbers(tool: Tool[..., Any]) -> None:
    timeout = 1 if tool.timeout is None else tool.timeout
    declared: dict[str, Any] = {"retries": tool.retries, "grace": tool.grace, "timeout": timeout}
    for what, given in declared.items():
        if isinstance(given, bool) or not isinstance(given, int if what == "retries" else int | float):
            raise bad_tool(tool.name, f"{what}={given!r} is no such number", "leave it out, or give a positive number")
    if tool.retries < 0 or tool.grace < 0 or timeout <= 0:
        raise bad_tool(tool.name, "retries, grace or timeout is negative", "leave them out, or give a positive number")


def _takes_one(fn: Callable[..., Any]) -> bool:
    try:
        inspect.signature(fn).bind(None)
    except TypeError:
        return False
    except ValueError:  # it does not say what it takes
        return True
    return True


def _is_async(fn: object) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
