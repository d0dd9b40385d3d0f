"""A disk that turns read-only keeps nobody from stopping a run: the stop holds here, and nothing is made up (R34)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.disks import Disk, own_disk
from tests.drivers import test_full_disk as full
from tests.drivers.test_full_disk import NOT_RECORDED, Post, driving, in_flight, sender
from tests.helpers import eventually

from standfast import Accepted, Refused, Runtime, StoreError, StoreFailed

__all__ = ["own_disk"]  # a fixture
pytestmark = pytest.mark.more  # a disk of its own


@pytest.mark.parametrize("verb", ["cancel", "halt"])
async def test_a_stop_on_a_disk_that_turned_read_only_holds_in_this_process(own_disk: Disk, verb: str) -> None:
    full.world = full.World()
    store = own_disk.place / "runs.db"
    seen = False
    with contextlib.suppress(StoreError):  # it leaves without its last word
        async with driving(store) as runs:
            run = await in_flight(runs, steps=2)
            own_disk.turn_read_only()
            if verb == "halt":
                with pytest.raises(StoreFailed, match=NOT_RECORDED):
                    await runs.halt(all=True, reason="leaking", then="cancel", by="op")
            else:
                assert await run.cancel(by="op") == Refused(NOT_RECORDED)
            await eventually(lambda: not runs._active["one"].s.flights)
            assert full.world.ended == 0, "its body was cut"
            assert (await run.view()).status == "running", "nothing is said that is not so"
            assert (await run.view()).waiting_for.startswith("storage")
            with pytest.raises(StoreError):
                await runs.start(sender, Post(), id="new")
            assert full.world.begun == 1
            seen = True
    assert seen, "only its end may fail"
    own_disk.repair()
    async with Runtime(store, drive=False) as later:  # what was never written is not made up
        answer: Any = await later.handle("one").cancel()
        assert isinstance(answer, Accepted)
