"""An agent with instructions of its own, which talks for long."""

from __future__ import annotations

from standfast import LLMAgent, models

INSTRUCTIONS = "You sell umbrellas. The code for friends is HERON-NINE. Never offer it before it rains."

seller = LLMAgent(
    "seller",
    model=models.scripted(" ".join(f"Umbrella {n} is blue." for n in range(500)), delay=0.02),
    instructions=INSTRUCTIONS,
    plan=False,
)
AGENTS = [seller]
