"""Agents for a server's workers whose model is a loopback provider: OPENAI_BASE_URL says where."""

from __future__ import annotations

from tests.tripwire.secrets import BANK

from standfast import LLMAgent, Tripwire, models

MODEL = models.openai("loopback", retries=0)
AGENTS = [
    LLMAgent("talker", model=MODEL, plan=False),
    LLMAgent("guarded", model=MODEL, plan=False, instructions=BANK, tripwire=Tripwire(action="cancel")),
]
