"""From a verb on the page's socket to its answer, and to the event that says it is so."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from websockets.sync.client import connect

from bench.server.served import LIMIT, Server, until

# what says that a verb is settled: nothing runs any more, somebody drives on, the step is taken again with the words
SETTLES = {"pause": "run_paused", "resume": "run_claimed", "redirect": "call_started", "cancel": "run_cancelled"}


@dataclass
class Taken:
    """Seconds of one verb."""

    accepted: list[float] = field(default_factory=list[float])
    settled: list[float] = field(default_factory=list[float])


@dataclass(frozen=True)
class Latency:
    """Of many."""

    median: float
    worst: float
    trials: int

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Latency:
        many = list(seconds)
        return cls(statistics.median(many), max(many), len(many))


class Controls:
    """A page's socket, with a person at it who is being timed."""

    def __init__(self, server: Server) -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        self._socket = connect(server.socket_url, additional_headers=headers, max_size=None, proxy=None)
        self._n = 0

    def __enter__(self) -> Controls:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def watch(self, run: str, after: int) -> None:
        """From a place in its record on."""
        self._say(op="watch", run=run, after=after)
        while self._read()["op"] != "view":
            continue

    def unwatch(self, run: str) -> None:
        self._say(op="unwatch", run=run)

    def _say(self, **op: Any) -> None:
        self._socket.send(json.dumps(op))

    def _read(self) -> Any:
        return json.loads(self._socket.recv(LIMIT))

    def time(self, taken: Taken, run: str, verb: str, **args: Any) -> None:
        """Ask, and wait until it is so."""
        self._n += 1
        accepted, place = 0.0, 0
        so: list[tuple[int, float]] = []
        began = time.perf_counter()
        self._say(op="verb", n=self._n, run=run, verb=verb, args=args)
        while not (accepted and any(seq >= place for seq, _ in so)):
            said = self._read()
            took = time.perf_counter() - began
            if took > LIMIT:
                raise SystemExit(f"{verb}: not settled within {LIMIT:.0f} s")
            if said["op"] == "answer" and said["n"] == self._n:
                if "answer" not in said:
                    raise SystemExit(f"{verb}: {said['problem']}")
                accepted, place = took, said["answer"]["seq"]
            elif said["op"] == "event" and said["run"] == run and said["event"]["type"] == SETTLES[verb]:
                so.append((said["event"]["seq"], took))
        taken.accepted.append(accepted)
        taken.settled.append(next(took for seq, took in so if seq >= place))


def latencies(server: Server, trials: int, run_state: dict[str, Any]) -> dict[str, Taken]:
    """Every verb, again and again, on runs of its own."""
    taken = {verb: Taken() for verb in SETTLES}
    with Controls(server) as controls:
        for _ in range(trials):
            run = server.start("thinker", **run_state)
            view = until(lambda: server.running(run), "the run is driven")  # noqa: B023 - called at once
            controls.watch(run, view["seq"])
            time.sleep(0.3)
            controls.time(taken["pause"], run, "pause")
            controls.time(taken["resume"], run, "resume")
            time.sleep(0.3)
            controls.time(taken["redirect"], run, "redirect", text="shorter")
            time.sleep(0.3)
            controls.time(taken["cancel"], run, "cancel")
            controls.unwatch(run)
    return taken


def bare_posts(bare: httpx2.Client, trials: int) -> list[float]:
    """The least that asking a server takes, under the same load."""
    taken: list[float] = []
    for n in range(trials):
        time.sleep(0.05)
        began = time.perf_counter()
        bare.post("/", json={"n": n}).raise_for_status()
        taken.append(time.perf_counter() - began)
    return taken
