"""Stages as a plan knows them, by name: what a changed list of stages makes of a run that is under way (R16)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from standfast.records import PlanItem

_BY_POSITION: Final = re.compile(r"stage-\d+")  # how stages were known before they were known by name
_OWN: Final = re.compile(r"item-\d+")  # what the code of a stage has added to the plan


def stage_id(name: str) -> str:
    """How a stage is known, in stores and to people who name it: `fetch-customer-list`."""
    id_ = "-".join(re.findall(r"\w+", name.lower())) or "stage"
    return f"named-{id_}" if _BY_POSITION.fullmatch(id_) or _OWN.fullmatch(id_) else id_


def named(id_: str, known: Mapping[str, str]) -> str:
    """The id of a stage, whatever it is known by."""
    return known.get(id_, id_)


def names_in(plan: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What the positions in a list of stages mean: id by position, id by name."""
    return {id_: stage_id(title) for id_, title in plan if _BY_POSITION.fullmatch(id_)}


def in_progress(shown: Iterable[PlanItem], known: Mapping[str, str]) -> str:
    """The id of the stage that the step in progress has begun; empty if none has."""
    return next((named(item.id, known) for item in shown if item.status == "running"), "")


def fitted(
    items: Sequence[PlanItem], stages: Sequence[PlanItem], running: str, known: Mapping[str, str]
) -> list[PlanItem]:
    """The plan of a snapshot, brought to the list of stages that there is now.

    What is finished stays finished. `running` is in progress and is ended first, wherever it stands now; everything
    else that is not finished is taken in the order of the list. What is gone is shown only if it had begun.
    """
    items = [replace(item, id=named(item.id, known)) for item in items]
    old = {item.id: item for item in items}
    now = [_fitted_one(stage, old.get(stage.id)) for stage in stages]
    ids = {stage.id for stage in stages}
    if running in ids and next(item for item in now if item.status != "done" or item.id == running).id != running:
        now = [replace(item, status="running") if item.id == running else item for item in now]
    return _with_gone(now, items, running)


def _fitted_one(stage: PlanItem, old: PlanItem | None) -> PlanItem:
    if old is None:
        return stage
    rewritten = bool(old.was) or old.status in ("done", "dropped")
    return replace(old, title=old.title if rewritten else stage.title, redirects=stage.redirects)


def _with_gone(now: list[PlanItem], items: Sequence[PlanItem], running: str) -> list[PlanItem]:
    """Lines of stages that are not there any more stand where they stood."""
    ids = {item.id for item in now}
    merged, at = list(now), 0
    for item in items:
        if item.id in ids:
            at = next(n for n, one in enumerate(merged) if one.id == item.id) + 1
        elif _OWN.fullmatch(item.id) or item.status in ("done", "dropped"):
            merged.insert(at, item)
            at += 1
        elif item.status == "running" or item.id == running:
            merged.insert(at, replace(item, status="dropped"))
            at += 1
    return merged


def difference(
    before: Sequence[tuple[str, str]],
    items: Sequence[PlanItem],
    stages: Sequence[PlanItem],
    running: str,
    known: Mapping[str, str],
) -> str:
    """How the list of stages has changed, and what that means for this run, in words; empty if it has not."""
    old = {named(id_, known): title for id_, title in before}
    new = {stage.id: stage.title for stage in stages}
    if list(old.items()) == list(new.items()):
        return ""
    done = {named(item.id, known) for item in items if item.status == "done"}
    gone = [id_ for id_ in old if id_ not in new]
    then = [item for item in fitted(items, stages, running, known) if item.id in new and item.status != "done"]
    todo = [item.id for item in then if item.id == running] + [
        item.id for item in then if item.id != running and item.status != "dropped"
    ]
    parts = [
        _listed("new", [new[id_] for id_ in new if id_ not in old]),
        _listed("removed, was finished", [old[id_] for id_ in gone if id_ in done]),
        _listed("removed, in progress, is given up, what it did stays", [old[id_] for id_ in gone if id_ == running]),
        _listed("removed, will not be taken", [old[id_] for id_ in gone if id_ not in done and id_ != running]),
        *(f"“{old[id_]}” is now “{new[id_]}”" for id_ in new if id_ in old and old[id_] != new[id_]),
        _listed("finished, stays so", [new[id_] for id_ in new if id_ in done]),
        _listed(
            "will be taken, in this order",
            [new[id_] for id_ in todo],
            mark=lambda title: " (in progress)" if title == new.get(running) else "",
        ),
    ]
    return "the stages have changed: " + "; ".join(part for part in parts if part)


def _listed(what: str, titles: Sequence[str], mark: Callable[[str], str] = lambda _: "") -> str:
    return f"{what}: {', '.join(f'“{title}”{mark(title)}' for title in titles)}" if titles else ""
