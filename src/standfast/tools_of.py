"""Which tools a function can reach, read from its code.

A new process must be able to undo what an old one did, before any step has run there.
Names are looked up in the code's own modules: nothing is imported by a name from a store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeGuard

from standfast.toolbox import Toolbox
from standfast.tools import Tool

MOST_OBJECTS = 5000


def tools_of(functions: Iterable[Callable[..., Any]]) -> list[Tool[..., Any]]:
    """Every tool that these functions name, directly or through functions they name."""
    found: dict[int, Tool[..., Any]] = {}
    seen: set[int] = set()
    queue: list[Any] = list(functions)
    while queue and len(seen) < MOST_OBJECTS:
        thing: Any = queue.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if _is_tool(thing):
            found[id(thing)] = thing
            queue.append(thing.fn)
        elif isinstance(thing, Toolbox):
            queue.extend(thing.tools)
        elif isinstance(thing, FunctionType):
            queue.extend(_named_by(thing))
        elif isinstance(thing, type):
            queue.extend(_among(vars(thing).values()))
        elif _is_dict(thing):
            queue.extend(_among(thing.values()))
        elif _is_collection(thing):
            queue.extend(_among(thing))
        elif callable(getattr(thing, "__wrapped__", None)):
            queue.append(thing.__wrapped__)
    return list(found.values())


def _is_tool(thing: object) -> TypeGuard[Tool[..., Any]]:
    return isinstance(thing, Tool)


def _is_dict(thing: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(thing, dict)


def _is_collection(thing: object) -> TypeGuard[Collection[Any]]:
    return isinstance(thing, list | tuple | set | frozenset)


def _among(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if _is_tool(value) or isinstance(value, FunctionType | Toolbox)]


def _named_by(function: FunctionType) -> Iterator[Any]:
    names = set(_names(function.__code__))
    scope = function.__globals__
    for name in names:
        value = scope.get(name)
        if isinstance(value, ModuleType):
            yield from (v for n in names if isinstance(v := vars(value).get(n), Tool | FunctionType | type | Toolbox))
        elif value is not None:
            yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not filled in yet


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
