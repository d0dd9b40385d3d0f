"""Agents by the names that people type: `module:name`. Never by a name that was read from a store."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from standfast.agents import Agent, as_agent
from standfast.errors import Misuse


def agents_named(names: Sequence[str]) -> list[Agent[Any, Any]]:
    """The agents that `module:name` mean; a name may be an agent, something that carries one, or a list of them."""
    here = os.getcwd()  # noqa: PTH109 - sys.path holds texts
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    found: list[Agent[Any, Any]] = []
    for each in names:
        found += _agents_of(each)
    return found


def _agents_of(given: str) -> list[Agent[Any, Any]]:
    module, colon, name = given.partition(":")
    if not colon or not module or not name:
        raise Misuse(f"{given!r} names no agent", hint="write module:name, such as shop.agents:mailer")
    try:
        thing: Any = importlib.import_module(module)
    except ImportError as error:
        raise Misuse(
            f"the module of {given!r} cannot be imported: {error}",
            hint="check its name, and start in the folder (or environment) where it can be imported",
        ) from error
    except (Exception, SystemExit) as error:  # whatever a module does while it is imported
        raise Misuse(
            f"the module of {given!r} cannot be imported: {type(error).__name__}: {error}{_where(error)}",
            hint="mend it; nothing was started",
        ) from error
    for part in name.split("."):
        if not hasattr(thing, part):
            raise Misuse(f"there is no {name!r} in {module}", hint="write module:name of an agent in it")
        thing = getattr(thing, part)
    many: list[Any] = list(thing) if isinstance(thing, list | tuple) else [thing]  # pyright: ignore[reportUnknownArgumentType]
    return [as_agent(one) for one in many]


def _where(error: BaseException) -> str:
    """The line of the module that raised, for people who do not want a traceback."""
    if isinstance(error, SyntaxError):
        return ""  # it says so itself
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
