"""A text starts a run of every agent whose state has one field for it (R1, R36)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from standfast import Agent, Done, LLMAgent, Misuse, Pipeline, Run, Runtime, WrongState, agent, models
from standfast.models import use as use_tool
from standfast.testing import lab


class Topic(BaseModel):
    subject: str = ""
    words: int = 100
    title: str = ""


class Report(BaseModel):
    month: str
    pages: int = 1


@dataclass
class Note:
    about: str
    lines: int = 3


class Pair(BaseModel):
    a: str
    b: str


class Numbers(BaseModel):
    n: int


@agent("essayist", text_field="subject")
async def essayist(run: Run[Topic]) -> Done[str]:
    return Done(f"{run.state.words} words on {run.state.subject}")


@agent("reporter")
async def reporter(run: Run[Report]) -> Done[str]:
    return Done(run.state.month)


@agent("noter")
async def noter(run: Run[Note]) -> Done[str]:
    return Done(run.state.about)


@agent("pairs")
async def pairs(run: Run[Pair]) -> Done[str]:
    return Done(run.state.a)


@agent("topics")
async def topics(run: Run[Topic]) -> Done[str]:
    return Done(run.state.subject)


stages = Pipeline("stages", Topic, text_field="subject")


@stages.stage("Write")
async def write(run: Run[Topic]) -> None:
    run.state.words = len(run.state.subject)


@pytest.mark.parametrize(
    ("one", "result"), [(essayist, "100 words on May"), (reporter, "May"), (noter, "May")], ids=str
)
async def test_a_text_is_for_the_field_that_is_named_or_the_only_one_that_must_be_given(
    one: Agent[Any, str], result: str
) -> None:
    async with lab([one]) as runs:
        assert await (await runs.start(one, "May")).result(timeout=120) == result


async def test_a_pipeline_takes_text_too() -> None:
    async with lab([stages]) as runs:
        assert (await (await runs.start(stages, "May")).result(timeout=120)).words == 3


@pytest.mark.parametrize("one", [pairs, topics], ids=str)
async def test_where_two_fields_may_be_meant_a_text_is_refused(one: Agent[Any, str]) -> None:
    async with lab([one]) as runs:
        with pytest.raises(WrongState):
            await runs.start(one, "May")


async def test_a_process_without_the_code_starts_runs_with_a_text_as_well(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "s.db", [essayist, reporter]) as runs:
        async with Runtime(tmp_path / "s.db", drive=False) as outside:
            started = [await outside.start(name, "May") for name in ("essayist", "reporter")]
        results = [await runs.handle(run.id).result(timeout=120) for run in started]
    assert results == ["100 words on May", "May"]


@pytest.mark.parametrize(
    ("field", "state", "said"),
    [("absent", Topic, "subject"), ("words", Topic, "subject"), ("n", Numbers, "no str field"), ("a", Pair, "b")],
)
def test_a_text_field_that_could_not_work_is_refused_where_it_is_declared(field: str, state: Any, said: str) -> None:
    with pytest.raises(Misuse) as caught:
        Pipeline("p", state, text_field=field)
    assert said in f"{caught.value.message} {caught.value.hint}"


async def test_a_model_that_hands_such_an_agent_a_task_sees_all_of_its_state() -> None:
    asked = use_tool("essayist", subject="May", words=5)
    boss = LLMAgent("boss", model=models.scripted([asked, "done"]), tools=[essayist])
    shown: Any = essayist.schema_for_models["properties"]
    assert set(shown) == {"subject", "words", "title"}
    shown = boss.schema_for_models["properties"]
    assert set(shown) == {"task"}
    async with lab([boss, essayist]) as runs:
        assert await (await runs.start(boss, "write")).result(timeout=120) == "done"
