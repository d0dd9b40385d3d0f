"""The plan that people see: lines with a state each. A plan item is not a step."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from standfast import arguments
from standfast.errors import Misuse
from standfast.records import PlanItem, PlanStatus


class Plan:
    """The plan as a step sees and changes it; restored with the state when the step is set back."""

    __slots__ = ("_step", "begun_with", "changed", "items")

    def __init__(self, items: list[PlanItem], step: int) -> None:
        self.items = items
        self._step = step
        self.changed = False  # since people last saw it
        self.begun_with = self.upcoming  # what a redirect of this step is about

    def next(self) -> Plan:
        """The same plan for the next step."""
        return Plan(self.items, self._step + 1)

    def __iter__(self) -> Iterator[PlanItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> PlanItem:
        return self.items[index]

    @property
    def current(self) -> PlanItem | None:
        """The item being worked on."""
        return next((i for i in self.items if i.status == "running"), None)

    @property
    def upcoming(self) -> PlanItem | None:
        """The item being worked on, or else the first queued one."""
        return self.current or next((i for i in self.items if i.status == "queued"), None)

    def set(self, titles: Iterable[str]) -> None:
        """Replace what is queued; what is done or running stays."""
        kept = [i for i in self.items if i.status != "queued"]
        used = {i.id for i in kept}
        new: list[PlanItem] = []
        n = len(kept)
        for title in titles:
            while f"item-{n}" in used:
                n += 1
            new.append(PlanItem(f"item-{n}", arguments.text("a title", title)))
            n += 1
        self._become([*kept, *new])

    def add(self, title: str) -> PlanItem:
        """One more queued item."""
        item = PlanItem(f"item-{len(self.items)}", arguments.text("a title", title))
        self._become([*self.items, item])
        return item

    def start(self, item: PlanItem | str) -> None:
        """This item is being worked on, from this step on."""
        old = self._find(item)
        self._put(replace(old, status="running", step=self._step if old.step is None else old.step))

    def done(self, item: PlanItem | str) -> None:
        """This item is finished."""
        self._put(replace(self._find(item), status="done"))

    def drop(self, item: PlanItem | str) -> None:
        """This item will not be done."""
        self._put(replace(self._find(item), status="dropped"))

    def rewrite(self, item: PlanItem | str, title: str) -> None:
        """This item says something else now; what it said before stays beside it."""
        old = self._find(item)
        self._put(replace(old, title=arguments.text("a title", title), was=old.title))

    def keep(self, lines: Iterable[tuple[str, PlanStatus]]) -> None:
        """The plan as its owner sees it now: known titles get their status, new ones are added, others are dropped."""
        known = {i.title: i for i in self.items}
        fresh = itertools.count(len(self.items))
        used = {i.id for i in self.items}
        kept: dict[str, PlanItem] = {}
        for title, status in lines:
            old = known.get(title)
            if old is None:
                id_ = next(name for n in fresh if (name := f"item-{n}") not in used)
                old = PlanItem(id_, arguments.text("a title", title))
            began = self._step if status != "queued" and old.step is None else old.step
            kept[old.id] = replace(old, status=status, step=began)
        gone = [i for i in self.items if i.id not in kept]
        over = [i if i.status == "done" else replace(i, status="dropped") for i in gone]
        items = [*over, *kept.values()]
        if items != self.items:
            self._become(items)

    def _find(self, item: PlanItem | str) -> PlanItem:
        id_ = item if isinstance(item, str) else item.id
        found = next((i for i in self.items if i.id == id_), None)
        if found is None:
            raise Misuse(f"the plan has no item {id_!r}", hint="run.plan lists them")
        return found

    def _put(self, item: PlanItem) -> None:
        if item not in self.items:
            self._become([item if i.id == item.id else i for i in self.items])

    def _become(self, items: list[PlanItem]) -> None:
        self.items = items
        self.changed = True
