"""Pipeline: titled stages, shown queued before they run. An ordinary step function on the public API."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from standfast import arguments
from standfast.agents import Agent, Migrate
from standfast.builtin_calls import ask
from standfast.equal_writes import DEFAULT as EQUAL_WRITES
from standfast.errors import BadReturn, Misuse
from standfast.records import Again, Budget, Done, PlanItem
from standfast.redirect_reading import may_read_redirects
from standfast.run import Run
from standfast.stage_plan import difference, fitted, in_progress, stage_id
from standfast.tools import Tool

S = TypeVar("S")
A = TypeVar("A", bound=Again | None)  # kept as it is declared: most stages return None
StageFn: TypeAlias = Callable[[Run[S]], Coroutine[Any, Any, A]]


@dataclass(frozen=True)
class _Stage(Generic[S]):
    id: str
    title: str
    fn: StageFn[S, Again | None]
    redirects: bool | None = None  # declared; None: as its code says

    @cached_property
    def item(self) -> PlanItem:
        """The stage as a line of the plan, before it is taken."""
        redirects = may_read_redirects(self.fn) if self.redirects is None else self.redirects
        return PlanItem(self.id, self.title, redirects=redirects)


class Pipeline(Agent[S, S]):
    """Stages taken one after the other; the title is the instruction that a redirect rewrites."""

    def __init__(
        self,
        name: str,
        state: type[S],
        *,
        version: str | None = None,
        migrate: Migrate | None = None,
        budget: Budget | None = None,
        on_error: Literal["pause", "fail"] = "pause",
        redirects: bool = True,
        concurrency: int | None = None,
        tools: Sequence[Tool[..., Any]] = (),
        max_frames: int = 4,
        frame_expiry: float = 1800.0,
        max_held_tokens: int | None = None,
        equal_writes: int | None = EQUAL_WRITES,
        text_field: str | None = None,
    ) -> None:
        self._stages: list[_Stage[S]] = []
        super().__init__(
            name,
            self._step,
            state=state,
            result=state,
            version=version,
            migrate=migrate,
            budget=budget,
            on_error=on_error,
            redirects=redirects,
            concurrency=concurrency,
            tools=tools,
            plan=self._items,
            functions=lambda: [stage.fn for stage in self._stages],
            turn_for_unread=["redirect"],
            max_frames=max_frames,
            frame_expiry=frame_expiry,
            max_held_tokens=max_held_tokens,
            equal_writes=equal_writes,
            text_field=text_field or "",
        )

    def stage(
        self, title: str, *, name: str | None = None, redirects: bool | None = None
    ) -> Callable[[StageFn[S, A]], StageFn[S, A]]:
        """Add a stage. Return Again() to have it taken again after a boundary.

        A run that is under way knows its stages by `name` (default: the title). `redirects=False`: it takes none;
        left out, its code says so: one that never reads `run.instruction` or `run.take_redirects()` takes none.
        """
        if not arguments.text("the title of a stage", title).strip():
            raise Misuse("a stage needs a title", hint="it is what people see, and what a redirect rewrites")

        def add(fn: StageFn[S, A]) -> StageFn[S, A]:
            if not inspect.iscoroutinefunction(fn):
                raise Misuse(
                    f"stage {title!r} is no async function", hint="write it as async def stage(run: Run[State])"
                )
            id_ = stage_id(arguments.text_or_none("the name of a stage", name) or title)
            if any(stage.id == id_ for stage in self._stages):
                raise Misuse(
                    f"pipeline {self.name} has two stages known as {id_!r}",
                    hint="give one of them another title, or a name: @pipeline.stage(title, name=...)",
                )
            self._stages.append(_Stage(id_, title, fn, redirects))
            return fn

        return add

    def must_be_complete(self) -> None:
        if not self._stages:
            raise Misuse(f"pipeline {self.name} has no stages", hint="add them before it is used: @pipeline.stage(...)")

    def _items(self) -> list[PlanItem]:
        return [stage.item for stage in self._stages]

    def fit_plan(self, items: list[PlanItem], shown: Sequence[PlanItem], known: Mapping[str, str]) -> list[PlanItem]:
        return fitted(items, self._items(), in_progress(shown, known), known)

    def plan_difference(
        self, old: Sequence[tuple[str, str]], items: list[PlanItem], shown: Sequence[PlanItem], known: Mapping[str, str]
    ) -> str:
        return difference(old, items, self._items(), in_progress(shown, known), known)

    def _upcoming(self, run: Run[S]) -> PlanItem | None:
        """The stage in progress, or the first that is queued; a stage may have added lines of its own."""
        mine = {stage.id for stage in self._stages}
        left = [item for item in run.plan if item.id in mine and item.status in ("running", "queued")]
        return next((item for item in left if item.status == "running"), left[0] if left else None)

    async def _step(self, run: Run[S]) -> Done[S] | None:
        item = self._upcoming(run)
        if item is None:
            item = await self._past_the_end(run)
            if item is None:
                return Done(run.state)
        run.plan.start(item)
        stage = next(s for s in self._stages if s.id == item.id)
        again = await stage.fn(run)
        if isinstance(again, Again):
            return None
        if again is not None:
            raise BadReturn(f"stage {stage.title!r} returned {again!r}", hint="a stage returns Again() or None")
        run.plan.done(item)
        return None if self._upcoming(run) is not None else Done(run.state)

    async def _past_the_end(self, run: Run[S]) -> PlanItem | None:
        """A redirect that came in the last stage: a person says whether the stage is taken again, and reads it."""
        redirects = run.peek_redirects()
        if not redirects or not self._stages:
            return None
        last = self._stages[-1]
        text = "\n".join(redirects)
        wanted = await run.call(
            ask(
                f"All stages are done, then this came: {text!r}. Take {last.title!r} again?",
                ["take the stage again", "finish"],
            )
        )
        if wanted == "finish":
            run.decline_redirects(f"not applied: all stages were done, and the answer was “{wanted}”")
            run.note(f"{text!r} was not acted on: all stages were done, and the answer was to finish")
            return None
        return next(i for i in run.plan if i.id == last.id)
