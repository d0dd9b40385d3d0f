"""R31: the last byte from a provider is when it came, also to a synchronous client and to nobody who takes it."""

from __future__ import annotations

import asyncio
import queue
import threading
from types import SimpleNamespace
from typing import Any, cast

from tests.helpers import eventually

from standfast.context import current_call
from standfast.models.sync_streams import SyncStream


class Call:
    """The call that a stream belongs to: how often something came for it, and in which threads."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def byte_came(self) -> None:
        self.threads.append(threading.get_ident())


class Wire:
    """What a synchronous SDK gives: a stream whose events come when the test sends them."""

    response = SimpleNamespace(extensions={}, http_version="HTTP/1.1")

    def __init__(self) -> None:
        self.sent: queue.Queue[str | None] = queue.Queue()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Any:
        return iter(self.sent.get, None)


async def test_every_event_of_a_sync_stream_is_a_byte_that_came_whoever_takes_it() -> None:
    wire, call = Wire(), Call()
    mine = current_call.set(cast("Any", call))
    try:
        stream = SyncStream(None, lambda _: wire)
        await stream.open()
    finally:
        current_call.reset(mine)
    for count in (1, 2, 3):  # nobody reads them
        wire.sent.put("token")
        await eventually(lambda count=count: len(call.threads) == count)
    assert threading.get_ident() not in call.threads, "noted where it came, not where it is taken"
    closing = asyncio.create_task(stream.close())
    await asyncio.sleep(0)
    assert stream.cannot_cut, "it is cut, and its socket is not known"
    wire.sent.put("one more")
    await closing
    assert len(call.threads) == 4, "what came after the cut has come all the same"
    assert not stream.cannot_cut
