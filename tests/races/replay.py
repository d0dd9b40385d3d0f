"""Play seeds again: `python -m tests.races.replay 17`, or a range `0-200` until the first that fails."""

from __future__ import annotations

import random
import sys

from tests.races.chaos import play
from tests.races.oracle import Oracle
from tests.races.sim import Sim, simulate


async def story(sim: Sim) -> None:
    """One seed: a story, then the oracle on every run in it."""
    async with sim.processes("a", "b") as nodes:
        chaos = await play(sim, nodes)
        rng = random.Random(sim.rng.random())
        for handle in (chaos.story.handle, *(fork for fork, _ in chaos.story.forks)):
            await Oracle(nodes[0], sim.world, chaos.story, handle, rng).check()


def check(seed: int) -> list[tuple[float, str, str]]:
    """Play one seed, and give what the world saw; a failure says how to see it again."""
    try:
        world = simulate(seed, story)
    except Exception as error:
        error.add_note(f"seed {seed}: python -m tests.races.replay {seed}")
        raise
    return [(s.at, s.what, s.key) for s in world.seen]


def main(what: str) -> None:
    first, _, last = what.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        check(seed)
    print(f"seeds {what}: every promise kept")


if __name__ == "__main__":
    main(*sys.argv[1:])
