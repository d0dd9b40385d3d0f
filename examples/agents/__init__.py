"""Agents to try standfast with: `standfast run examples.agents:churn`, or all of them behind `standfast serve`.

Their effects are real files in a folder of their own (`standfast-demo`, or $STANDFAST_DEMO_FOLDER). They think with the
small local model where it is installed, else with a scripted one; the model's name says which.
"""

from __future__ import annotations

from typing import Any

from examples.agents.churn_memo import churn
from examples.agents.hard_to_stop import blocking, stubborn
from examples.agents.leaking import guarded, leaker
from examples.agents.literature_review import literature

from standfast.agents import Agent

AGENTS: list[Agent[Any, Any]] = [churn, literature, blocking, stubborn, leaker, guarded]

__all__ = ["AGENTS", "blocking", "churn", "guarded", "leaker", "literature", "stubborn"]
