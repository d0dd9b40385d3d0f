"""What is declared so that it could not work: refused where it is declared, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.core.mistakes import Plain, held_by, helpful, simple, waits

from standfast import Budget, Done, LLMAgent, Misuse, Pipeline, Run, Runtime, StandfastError, agent, ask, child, models
from standfast.testing import lab


async def step(run: Run[Plain]) -> Done[int]:
    return Done(1)


def plain_stage(run: Run[Plain]) -> None: ...


DECLARATIONS: dict[str, Callable[[], Any]] = {
    "agent without a name": lambda: agent(5)(step),  # type: ignore[arg-type]
    "agent as a bare decorator": lambda: agent(step),  # type: ignore[arg-type]
    "budget": lambda: agent("a", budget=5)(step),  # type: ignore[arg-type]
    "budget of nonsense": lambda: agent("a", budget=Budget(steps=-1))(step),
    "tools that are no list": lambda: agent("a", tools=step)(step),  # type: ignore[arg-type]
    "a function among the tools": lambda: agent("a", tools=[step])(step),  # type: ignore[list-item]
    "text_field that is not there": lambda: agent("a", text_field="absent")(step),
    "text_field of a pipeline": lambda: Pipeline("p", Plain, text_field="absent"),
    "concurrency": lambda: agent("a", concurrency="x")(step),  # type: ignore[arg-type]
    "pipeline without a state": lambda: Pipeline("p", 5),  # type: ignore[arg-type]
    "pipeline of an instance": lambda: Pipeline("p", Plain()),  # type: ignore[arg-type]
    "stage without a title": lambda: Pipeline("p", Plain).stage(5),  # type: ignore[arg-type]
    "stage that is not async": lambda: Pipeline("p", Plain).stage("One")(plain_stage),  # type: ignore[arg-type]
    "stage as a bare decorator": lambda: Pipeline("p", Plain).stage(step),  # type: ignore[arg-type]
    "budget of a model's agent": lambda: LLMAgent("a", model=models.scripted("x"), budget=5),  # type: ignore[arg-type]
    "store": lambda: Runtime(5),  # type: ignore[arg-type]
    "concurrency of a runtime": lambda: Runtime(":memory:", concurrency="x"),  # type: ignore[arg-type]
    "an agent for a list": lambda: Runtime(":memory:", agents=simple),  # type: ignore[arg-type]
    "a number for a list": lambda: Runtime(":memory:", agents=5),  # type: ignore[arg-type]
    "pipeline without stages": lambda: Runtime(":memory:", agents=[Pipeline("p", Plain)]),
    "options": lambda: ask("q", options=5),  # type: ignore[call-overload]
    "options that are a text": lambda: ask("q", options="yes"),
    "child": lambda: child(5, Plain()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", DECLARATIONS)
def test_a_declaration_that_could_not_work_is_refused_with_a_hint(what: str) -> None:
    with pytest.raises(StandfastError) as caught:
        DECLARATIONS[what]()
    helpful(caught.value)


async def test_a_pipeline_without_stages_is_not_started_by_a_runtime_that_does_not_drive(tmp_path: Any) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        with pytest.raises(Misuse) as caught:
            await runs.start(Pipeline("p", Plain), Plain())
        helpful(caught.value, "stage")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda runs, run: run.settled(timeout="x"),
        lambda runs, run: run.result(timeout="x"),
        lambda runs, run: anext(run.events(after="x")),
        lambda runs, run: anext(run.events(after=None)),
        lambda runs, run: run.state("x"),
        lambda runs, run: runs.list(limit="x"),
        lambda runs, run: runs.list(limit=2.5),
        lambda runs, run: runs.list(limit=10**30),
        lambda runs, run: runs.list(labels=5),
        lambda runs, run: runs.list(labels={"a": 5}),
        lambda runs, run: runs.list(agent=5),
        lambda runs, run: runs.list(before="nope"),
        lambda runs, run: runs.list(before=5),
        lambda runs, run: runs.list(needs="x"),
        lambda runs, run: runs.forget(5),
        lambda runs, run: anext(runs.events(labels=5)),
    ],
)
async def test_a_look_with_a_wrong_argument_is_misuse(wrong: Any) -> None:
    async with lab([waits, simple]) as runs:
        run = await runs.start(waits, Plain())
        await held_by(run, "waiting")
        ended = await runs.start(simple, Plain())
        await ended.result(timeout=120)
        for one in (run, ended):
            with pytest.raises(Misuse) as caught:
                await wrong(runs, one)
            helpful(caught.value)


async def test_a_list_before_the_oldest_run_is_empty() -> None:
    async with lab([simple]) as runs:
        run = await runs.start(simple, Plain())
        assert await runs.list(before=run.id) == []
