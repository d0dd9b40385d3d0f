"""LangGraph's ready agent with AsyncSqliteSaver, every step durable before the next."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic import SecretStr


@tool
async def look(n: int) -> str:
    """Look something up."""
    return f"result {n}"


def turns(url: str, path: str, n: int) -> float:
    async def loop() -> float:
        model = ChatOpenAI(model=f"turns-{n}", base_url=url, api_key=SecretStr("bench"), streaming=True)
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            graph: Any = create_agent(model, [look], checkpointer=saver)
            config = {"configurable": {"thread_id": "run"}, "recursion_limit": 4 * n + 10}
            start = time.perf_counter()
            await graph.ainvoke({"messages": [{"role": "user", "content": "Look often."}]}, config, durability="sync")
            return (time.perf_counter() - start) / n

    return asyncio.run(loop())
