"""Whether a function can read redirects, found by reading its code (as its tools are, see decision 0006).

"Cannot" is said only where it is certain: the function never names what reads redirects, and never lets its run out
of its hands, so that no other code could do it for it.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, Final

_READING: Final = frozenset({"instruction", "take_redirects", "peek_redirects"})
_OF_THE_RUN: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"})
_CELLS: Final = frozenset({"LOAD_CLOSURE", "MAKE_CELL", "COPY_FREE_VARS"})  # they only hand it to a nested function
_LOADS: Final = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME", "STORE_FAST_LOAD_FAST")


def may_read_redirects(function: Callable[..., Any]) -> bool:
    """False only if no attempt at it could read a redirect."""
    if not isinstance(function, FunctionType) or not function.__code__.co_argcount:
        return True  # something of its own: nobody can tell
    code = function.__code__
    run = code.co_varnames[0]
    return any(_reads(one) or _lets_out(one, run) for one in _nested(code))


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _reads(code: CodeType) -> bool:
    texts = {constant for constant in code.co_consts if isinstance(constant, str)}
    return not _READING.isdisjoint(code.co_names) or not _READING.isdisjoint(texts)


def _lets_out(code: CodeType, run: str) -> bool:
    """Is the run used otherwise than by one of its attributes?"""
    instructions = list(dis.get_instructions(code))
    for at, one in enumerate(instructions):
        if not one.opname.startswith(_LOADS) or one.opname in _CELLS:
            continue
        several = isinstance(one.argval, tuple)  # one instruction may load two variables
        names: tuple[Any, ...] = one.argval if several else (one.argval,)
        if run not in names:
            continue
        following = instructions[at + 1].opname if at + 1 < len(instructions) else ""
        if names[-1] != run or names.count(run) > 1 or following not in _OF_THE_RUN:
            return True
    return False
