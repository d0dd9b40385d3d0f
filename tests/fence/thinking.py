"""A tool that asks the model from a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

from openai import OpenAI
from tests.fence.world import HELLO

from standfast import fence, tool


@tool(effect="read", process=True)
def think_elsewhere(url: str, file: str) -> str:
    Path(file).write_text(str(os.getpid()))
    with OpenAI(base_url=url, api_key="test", http_client=fence.sync_http_client()) as client:
        return client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content or ""
