"""Budgets: caps that hold a run instead of letting it run away (R17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import JsonValue

from standfast.caps import Unsaid
from standfast.errors import Misuse
from standfast.records import Budget, Spent

_CAPS = ("steps", "calls", "tokens", "cost", "seconds")


def exhausted(budget: Budget, spent: Spent) -> str:
    """Which cap leaves no room for another call, in words; empty if there is room."""
    used = (  # spelled out: this is asked before every call
        (budget.steps is not None and spent.steps >= budget.steps)
        or (budget.calls is not None and spent.calls >= budget.calls)
        or (budget.tokens is not None and spent.tokens >= budget.tokens)
        or (budget.cost is not None and spent.cost >= budget.cost)
        or (budget.seconds is not None and spent.seconds >= budget.seconds)
    )
    if used:
        for name in _CAPS:
            cap = getattr(budget, name)
            if cap is not None and getattr(spent, name) >= cap:
                return f"{name}: {_shown(getattr(spent, name))} of {_shown(cap)} used"
    return ""


def given(budget: Budget | Mapping[str, Any]) -> Budget:
    """A budget, or the JSON of one as choices carry it; `then` is None if it was not said, so that JSON keeps that."""
    if not isinstance(budget, Budget | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Misuse(f"{budget!r} is no budget", hint="give Budget(...) or a dict of its caps")
    if not isinstance(budget, Budget):
        unknown = sorted(set(budget) - {*_CAPS, "repeats", "then"})
        if unknown:
            raise Misuse(f"a budget has no {', '.join(unknown)}", hint=f"it has {', '.join(_CAPS)}, repeats and then")
        budget = Budget(**budget)
    return replace(budget, then=_said(budget))


def raised(old: Budget, new: Budget) -> Budget:
    """The caps after `start(budget=new)` or `resume(budget=new)`: what is given replaces what was, absolutely."""
    given = {name: getattr(new, name) for name in (*_CAPS, "repeats") if getattr(new, name) is not None}
    return replace(old, **given, then=_said(new) or _said(old) or "pause")


def _said(budget: Budget) -> Literal["pause", "cancel"] | None:
    return None if isinstance(budget.then, Unsaid) else budget.then


def doubled(budget: Budget, spent: Spent) -> dict[str, JsonValue]:
    """Twice the room for every cap that is used up."""
    raised: dict[str, JsonValue] = {}
    for name in _CAPS:
        cap = getattr(budget, name)
        if cap is not None and getattr(spent, name) >= cap:
            raised[name] = max(cap, getattr(spent, name)) * 2 or 1
    return raised


def add(spent: Spent, other: Spent) -> None:
    """Count `other` into `spent`."""
    spent.calls += other.calls
    spent.input_tokens += other.input_tokens
    spent.output_tokens += other.output_tokens
    spent.cost += other.cost


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
