"""A tool that asks the model from a process of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from openai import OpenAI

from standfast import fence, tool

HELLO: list[Any] = [{"role": "user", "content": "hello"}]  # not from .world, which needs the other SDK too


@tool(effect="read", process=True)
def think_elsewhere(url: str, file: str) -> str:
    Path(file).write_text(str(os.getpid()))
    with OpenAI(base_url=url, api_key="test", http_client=fence.sync_http_client()) as client:
        return client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content or ""
