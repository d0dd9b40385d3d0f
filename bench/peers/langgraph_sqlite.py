"""LangGraph with SqliteSaver (aiosqlite for many runs at once), every step durable before the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.workloads import MemoryAndCpu, Paused, read_call


class State(TypedDict):
    seq: int
    body: str


class StepReachedError(Exception):
    """The step that was to be reached has started."""


def _graph(step: Callable[[State], Any], last: int) -> Any:
    graph: Any = StateGraph(State)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if state["seq"] >= last else "step")
    return graph


def _config(run: str, steps: int) -> Any:
    return {"configurable": {"thread_id": run}, "recursion_limit": steps + 10}


def _next(state: State) -> State:
    return {"seq": state["seq"] + 1, "body": read_call(state["seq"] + 1)}


def durable_steps(path: str, n: int, warm: int = 700) -> float:
    started: list[float] = []

    def step(state: State) -> State:
        if state["seq"] == warm:
            started.append(time.perf_counter())
        return _next(state)

    with SqliteSaver.from_conn_string(path) as saver:
        graph = _graph(step, warm + n).compile(checkpointer=saver)
        graph.invoke({"seq": 0, "body": ""}, _config("run", warm + n), durability="sync")
        return (time.perf_counter() - started[0]) / n


def concurrent(path: str, runs: int, steps: int) -> float:
    async def step(state: State) -> State:
        return _next(state)

    async def all_runs() -> float:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            await saver.setup()
            graph = _graph(step, steps).compile(checkpointer=saver)
            start = time.perf_counter()
            await asyncio.gather(*(
                graph.ainvoke({"seq": 0, "body": ""}, _config(f"run-{number}", steps), durability="sync")
                for number in range(runs)
            ))  # fmt: skip
            return runs * steps / (time.perf_counter() - start)

    return asyncio.run(all_runs())


def _stops_at(seq: int) -> Callable[[State], State]:
    def step(state: State) -> State:
        if state["seq"] == seq:
            raise StepReachedError
        return _next(state)

    return step


def prepare_resume(path: str, steps: int) -> None:
    with SqliteSaver.from_conn_string(path) as saver:
        graph = _graph(_stops_at(steps), steps + 10).compile(checkpointer=saver)
        try:
            graph.invoke({"seq": 0, "body": ""}, _config("run", steps), durability="sync")
        except StepReachedError:
            pass  # the run now waits before its next step


def resume_seconds(path: str, steps: int) -> float:
    start = time.perf_counter()
    with SqliteSaver.from_conn_string(path) as saver:
        graph = _graph(_stops_at(steps), steps + 10).compile(checkpointer=saver)
        try:
            graph.invoke(None, _config("run", steps), durability="sync")
        except StepReachedError:
            return time.perf_counter() - start
    raise AssertionError("the run went past its next step")


def paused_kb(path: str, n: int) -> Paused | None:
    """A paused run lives in the file; what is left in memory is the thread's id."""
    with SqliteSaver.from_conn_string(path) as saver:
        graph = _graph(_next, 10).compile(checkpointer=saver, interrupt_after=["step"])
        for number in range(600):  # SQLite's page cache fills first
            graph.invoke({"seq": 0, "body": ""}, _config(f"warm-{number}", 10), durability="sync")
        before = MemoryAndCpu()
        names = [f"run-{number}" for number in range(n)]
        for name in names:
            graph.invoke({"seq": 0, "body": ""}, _config(name, 10), durability="sync")
        return before.cost(n)
