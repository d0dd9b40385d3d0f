"""Who takes part. A new contender is a module in bench/peers (see `workloads.Peer`) and a line here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contender:
    title: str
    module: str  # in bench/peers
    packages: tuple[str, ...] = ()  # whose versions the report names
    concurrent_steps: int = 10  # a run: the slow ones are asked for less, the rate is what counts
    paused_runs: int = 1000
    ours: bool = False
    bound: bool = False  # no peer: what the least that has to be done costs


RAW = Contender("raw SQLite", "raw_sqlite", concurrent_steps=100)

CONTENDERS: list[Contender] = [
    Contender("standfast", "standfast_", concurrent_steps=100, paused_runs=10_000, ours=True),
    Contender("the bare shape", "bare_shape", concurrent_steps=100, bound=True),
    Contender(
        "LangGraph, SqliteSaver",
        "langgraph_sqlite",
        ("langgraph", "langgraph-checkpoint-sqlite", "aiosqlite"),
    ),
    Contender("Burr, SQLitePersister", "burr_sqlite", ("burr",), concurrent_steps=30),
    Contender("DBOS, SQLite", "dbos_sqlite", ("dbos",), concurrent_steps=5, paused_runs=300),
]
