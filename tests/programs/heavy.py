"""An agent whose questions have schemas that a value can be made for."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field
from tests.programs.served import counter

from standfast import Done, Run, agent, ask


class Sum(BaseModel):
    kind: Literal["+"]
    left: Node


class Product(BaseModel):
    kind: Literal["*"]
    left: Node


Node: TypeAlias = Sum | Product | int
Sum.model_rebuild()
Product.model_rebuild()

Word = Annotated[str, Field(pattern=r"^(a+)+$")]


class Asked(BaseModel):
    what: Literal["word", "tree"] = "word"


@agent("asker")
async def asker(run: Run[Asked]) -> Done[str]:
    """Asks for a word or for a tree."""
    kind: type = Word if run.state.what == "word" else Product
    return Done(str(await run.call(ask("Which?", type=kind))))


AGENTS = [asker, counter]
