"""What a tool declares about itself: BadTool where it could not keep that, at once and not in the middle of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from standfast.errors import BadTool
from standfast.records import NO_TOOLS, Effect, Settles
from standfast.signature import bad_tool

if TYPE_CHECKING:
    from standfast.tools import Tool

_EFFECTS = get_args(Effect)
_SETTLES = get_args(Settles)
_KINDS = ("tool", "model")
_HARMLESS = ("read", "idempotent")  # may be cut and issued again


def check_declaration(tool: Tool[..., Any]) -> None:
    """Return if the tool can keep what it declares; BadTool says what it cannot."""
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
    _check_numbers(tool)
    _check_effect(tool)
    _check_confirm(tool)
    for what, fn in (("before", tool.before), ("undo", tool.undo), ("probe", tool.probe)):
        if fn is not None and not _is_async(fn):
            raise bad_tool(name, f"{what}= is not an async function", f"write it as async def {what}(...)")
        if fn is not None and what != "before":
            _check_hook(name, what, fn)


def _check_numbers(tool: Tool[..., Any]) -> None:
    declared: dict[str, Any] = {"retries": tool.retries, "grace": tool.grace, "timeout": tool.timeout}
    for what, given in declared.items():
        if what == "timeout" and given is None:
            continue
        if isinstance(given, bool) or not isinstance(given, int if what == "retries" else int | float):
            raise bad_tool(tool.name, f"{what}={given!r} is no such number", "leave it out, or give a positive number")
        if what == "timeout" and given <= 0:
            raise bad_tool(tool.name, f"timeout={given!r} leaves it no time", "give seconds, or leave it out")
        if given < 0:
            raise bad_tool(tool.name, f"{what}={given!r} is negative", "0 is the least")


def _check_effect(tool: Tool[..., Any]) -> None:
    effect = tool.effect
    if effect in _HARMLESS:
        for what, given in (("before", tool.before), ("undo", tool.undo)):
            if given is not None:
                hint = 'only effect="write" has something to undo'
                raise bad_tool(tool.name, f"{what}= on effect={effect!r}", hint)
        if tool.settles != "step":
            raise bad_tool(tool.name, f"settles= on effect={effect!r}", 'only effect="write" stays in flight')
        return
    if tool.kind == "model":
        hint = 'a model is cut and issued again; leave one of them out, or say effect="idempotent" if that is harmless'
        raise bad_tool(tool.name, f'effect={effect!r} on kind="model"', hint)
    if effect == "irreversible" and tool.undo is not None:
        hint = 'say effect="write" if it can be taken back, with confirm=True if it should ask first'
        raise bad_tool(tool.name, f"undo= on effect={effect!r}", hint)
    if tool.retries:
        hint = 'it could act twice; say effect="idempotent" if repeating it with the same key is harmless'
        raise bad_tool(tool.name, f"retries= on effect={effect!r}", hint)


def _check_confirm(tool: Tool[..., Any]) -> None:
    rule: Any = tool.confirm
    if callable(rule) and _is_async(rule):
        hint = "write it as a plain def: what it needs to know is in the arguments"
        raise bad_tool(tool.name, "confirm= is an async function", hint)
    if not (rule is None or isinstance(rule, bool) or callable(rule)):
        hint = "give True, False, or a function of the arguments that gives True or the question"
        raise bad_tool(tool.name, f"confirm={rule!r} is no rule", hint)


def _check_hook(name: str, what: str, fn: Callable[..., Any]) -> None:
    """An undo or a probe is given one thing, what was performed; a wrong one would be found when it is needed."""
    hint = f"it is given what was performed: async def {what}(performed: Performed[...])"
    if not _takes_one(fn):
        raise bad_tool(name, f"{what}= does not fit: {what}{_shown(fn)} cannot be called with one argument", hint)
    if what == "probe" and _returns(fn) is bool:
        hint = "return Happened(result), NotHappened(), or None where it cannot be known"
        raise bad_tool(name, "probe= says that it returns a bool", hint)


def _shown(fn: Callable[..., Any]) -> str:
    try:
        return str(inspect.signature(fn))
    except (TypeError, ValueError):
        return "(...)"


def _returns(fn: Callable[..., Any]) -> Any:
    """What it says that it returns; None if it does not, or that cannot be read from here."""
    try:
        return inspect.signature(fn, eval_str=True).return_annotation
    except Exception:  # noqa: BLE001 - names that only a checker knows: nothing is known of them here
        return None


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
