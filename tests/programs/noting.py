"""Agents without a model, started with a text: one names the field for it, of the other only one can be meant."""

from __future__ import annotations

from pydantic import BaseModel

from standfast import Done, Run, agent


class Topic(BaseModel):
    """What to write about, and how much."""

    subject: str = ""
    words: int = 100


class Report(BaseModel):
    """Which month is reported."""

    month: str
    pages: int = 1


@agent("essayist", text_field="subject")
async def essayist(run: Run[Topic]) -> Done[str]:
    """Writes about a subject."""
    return Done(f"{run.state.words} words on {run.state.subject}")


@agent("reporter")
async def reporter(run: Run[Report]) -> Done[str]:
    """Reports a month."""
    return Done(f"{run.state.pages} page on {run.state.month}")


AGENTS = [essayist, reporter]
