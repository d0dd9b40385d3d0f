"""Pipeline: titled stages, shown queued before they run. An ordinary step function on the public API."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from standfast import arguments
from standfast.agent import Agent, Migrate
from standfast.builtin_calls import ask
from standfast.errors import BadReturn, Misuse
from standfast.records import Again, Budget, Done, PlanItem
from standfast.run import Run
from standfast.tool import Tool

S = TypeVar("S")
A = TypeVar("A", bound=Again | None)  # kept as it is declared: most stages return None
StageFn: TypeAlias = Callable[[Run[S]], Coroutine[Any, Any, A]]


@dataclass(frozen=True, slots=True)
class _Stage(Generic[S]):
    id: str
    title: str
    fn: StageFn[S, Again | None]


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
            plan=lambda: [(stage.id, stage.title) for stage in self._stages],
            functions=lambda: [stage.fn for stage in self._stages],
            turn_for_unread=["redirect"],
            max_frames=max_frames,
            frame_expiry=frame_expiry,
            max_held_tokens=max_held_tokens,
        )

    def stage(self, title: str) -> Callable[[StageFn[S, A]], StageFn[S, A]]:
        """Add a stage. Return Again() to have it taken again after a boundary."""
        if not arguments.text("the title of a stage", title).strip():
            raise Misuse("a stage needs a title", hint="it is what people see, and what a redirect rewrites")

        def add(fn: StageFn[S, A]) -> StageFn[S, A]:
            if not inspect.iscoroutinefunction(fn):
                raise Misuse(
                    f"stage {title!r} is no async function", hint="write it as async def stage(run: Run[State])"
                )
            self._stages.append(_Stage(f"stage-{len(self._stages)}", title, fn))
            return fn

        return add

    def must_be_complete(self) -> None:
        if not self._stages:
            raise Misuse(f"pipeline {self.name} has no stages", hint="add them before it is used: @pipeline.stage(...)")

    async def _step(self, run: Run[S]) -> Done[S] | None:
        redirects = run.take_redirects()
        item = run.plan.upcoming
        if item is None:
            item = await self._past_the_end(run, redirects)
            if item is None:
                return Done(run.state)
        elif redirects:
            run.plan.rewrite(item, "\n".join(redirects))
        run.plan.start(item)
        stage = next(s for s in self._stages if s.id == item.id)
        again = await stage.fn(run)
        if isinstance(again, Again):
            return None
        if again is not None:
            raise BadReturn(f"stage {stage.title!r} returned {again!r}", hint="a stage returns Again() or None")
        run.plan.done(item)
        return None if run.plan.upcoming is not None else Done(run.state)

    async def _past_the_end(self, run: Run[S], redirects: list[str]) -> PlanItem | None:
        """A redirect that came in the last stage: a person says whether the stage is taken again."""
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
            run.note(f"{text!r} was not acted on: all stages were done, and the answer was to finish")
            return None
        item = next(i for i in run.plan if i.id == last.id)
        run.plan.rewrite(item, text)
        return item
