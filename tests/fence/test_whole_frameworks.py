"""What the guide says of a whole framework in one step: it is taken again with everything in it (R2, R36)."""

from __future__ import annotations

import asyncio

import pytest
from tests.docs.snippets import ROOT
from tests.fence.world import Words
from tests.helpers import eventually

from standfast import Agent, Done, Run, agent, tool
from standfast.testing import lab


class Framework:
    """Its loop sends something, then says two things; it crashes between them."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.saved: list[str] = []  # its own checkpoint
        self.tries = 0

    def agent(self, *, calls: bool = False, checkpoint: bool = False) -> Agent[Words, list[str]]:
        @tool
        async def send() -> None:
            self.sent.append("letter")

        @agent("framed")
        async def framed(run: Run[Words]) -> Done[list[str]]:
            self.tries += 1
            if calls:
                await run.call(send())
            else:
                self.sent.append("letter")
            for text in ("one", "two"):
                if checkpoint and text in self.saved:
                    continue
                run.state.said.append(text)
                self.saved.append(text)
                if self.tries == 1:
                    await asyncio.Event().wait()
            return Done(run.state.said)

        return framed

    async def crashes_once(self, it: Agent[Words, list[str]]) -> list[str]:
        async with lab([it]) as runs:
            run = await runs.start(it, Words())
            await eventually(lambda: self.saved)
            await runs.crash()
            return await run.result(timeout=120)


@pytest.mark.parametrize(("calls", "sent"), [(False, 2), (True, 1)], ids=["by itself", "with run.call"])
async def test_a_write_of_a_framework_is_performed_twice_unless_it_is_a_call(calls: bool, sent: int) -> None:
    framework = Framework()
    assert await framework.crashes_once(framework.agent(calls=calls)) == ["one", "two"]
    assert len(framework.sent) == sent


async def test_a_checkpoint_of_its_own_skips_what_the_run_does_not_have() -> None:
    framework = Framework()
    assert await framework.crashes_once(framework.agent(checkpoint=True)) == ["two"]


def words_of(page: str) -> str:
    return " ".join((ROOT / "docs/guide" / page).read_text(encoding="utf-8").split())


def test_the_guide_says_both() -> None:
    words = words_of("fence.md")
    assert "writes that the framework's own tools have performed are performed a second time" in words
    assert "Do not use a framework's own checkpoint inside a step" in words


@pytest.mark.parametrize("page", ["fence.md", "tools.md"])
def test_the_guide_says_how_tools_that_only_a_framework_holds_are_known_elsewhere(page: str) -> None:
    assert "tools=[search, send])`" in words_of(page)
