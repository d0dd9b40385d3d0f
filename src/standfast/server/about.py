"""What an agent says of itself. Workers know it too, and they load nothing of HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from standfast.agents import Agent


@dataclass(frozen=True, slots=True)
class About:
    """What is worth knowing of an agent beside its contract."""

    description: str = ""
    models: tuple[str, ...] = ()
    instructions: str = field(default="", repr=False)  # for sealing alone: they are shown to nobody

    @classmethod
    def of(cls, agent: Agent[Any, Any]) -> About:
        """From the agent itself."""
        models = tuple(sorted(name for name, tool in agent.tools.items() if tool.kind == "model"))
        return cls(agent.description, models, agent.instructions)
