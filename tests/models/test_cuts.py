"""R3, R6, R35: a request that is cancelled is closed at once, whatever the stream is doing."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
from contextvars import ContextVar
from typing import Any

import httpx2
import pytest
from tests.helpers import eventually
from tests.models.apis import Api, Reading, hear
from tests.providers.scenes import (
    Answer,
    Say,
    Wait,
    drips,
    floods,
    goes_silent,
    says,
    stalls_before_first_byte,
    stalls_before_headers,
)

from standfast.replies import ProviderError, Request

SYNC = pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
TRIALS = 5


def is_at(api: Api, reading: Reading, scene: str) -> bool:
    """Has the stream got to where the scene leaves it?"""
    if not api.server.exchanges:
        return False
    exchange = api.server.last
    if scene == "before headers":
        return True
    if scene == "before the first byte":
        return bool(exchange.sent)
    return any(getattr(delta, "text", "") for delta in reading.deltas)


SCENES: dict[str, Answer] = {
    "before headers": stalls_before_headers(),
    "before the first byte": stalls_before_first_byte(),
    "in mid-stream": drips(every=0.002),
    "in a silence": goes_silent("Hel", "lo"),
    "in a flood": floods(400_000_000),
}


@SYNC
@pytest.mark.parametrize("scene", SCENES)
async def test_a_cancelled_request_is_seen_closed_by_the_provider(api: Api, scene: str, sync: bool) -> None:
    provider = api.provider(client=api.client(sync=sync))
    for _ in range(TRIALS):
        api.server.exchanges.clear()
        api.server.will(SCENES[scene])
        reading = Reading(provider, api.user("hi"))
        await eventually(lambda: is_at(api, reading, scene))  # noqa: B023 - called at once
        asked = time.monotonic()
        await reading.cancel()
        exchange = api.server.last
        gone = await eventually(lambda: exchange.gone_at)  # noqa: B023
        assert gone - asked < 5, "a guard against hanging, not a measure"
        kept = len(reading.deltas)
        await asyncio.sleep(0.01)
        assert len(reading.deltas) == kept
    assert provider.cannot_cut == ""
    await eventually(lambda: api.server.open_connections == 0)


async def test_a_cut_while_connecting_leaves_nothing_behind(api: Api) -> None:
    provider = api.provider()
    for turns in range(30):
        api.server.will(stalls_before_headers())
        reading = Reading(provider, api.user("hi"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await reading.cancel()
    await eventually(lambda: api.server.open_connections == 0)


async def test_a_cut_in_the_thread_of_a_sync_client_while_connecting_leaves_nothing_behind(api: Api) -> None:
    provider = api.provider(client=api.client(sync=True))
    for trial in range(15):
        api.server.will(stalls_before_headers())
        reading = Reading(provider, api.user("hi"))
        await asyncio.sleep(trial / 2000)
        await reading.cancel()
    await eventually(lambda: api.server.open_connections == 0)
    await eventually(lambda: not [t for t in threading.enumerate() if t.name == "standfast-model"])


async def test_after_a_cut_the_same_provider_answers(api: Api) -> None:
    provider = api.provider()
    for _ in range(3):
        api.server.exchanges.clear()
        api.server.will(goes_silent("a"), says("fine"))
        reading = Reading(provider, api.user("hi"))
        await eventually(lambda: reading.deltas)  # noqa: B023
        await reading.cancel()
        assert (await hear(provider, api.user("hi"))).text == "fine"


@SYNC
async def test_an_error_in_the_reader_closes_the_connection(api: Api, sync: bool) -> None:
    api.server.will(drips())
    with pytest.raises(ZeroDivisionError):
        async with api.provider(client=api.client(sync=sync)).stream(Request([api.user("hi")])) as deltas:
            async for _ in deltas:
                raise ZeroDivisionError
    await eventually(lambda: api.server.last.gone_at)


@SYNC
async def test_cuts_leave_no_warnings_and_no_threads(api: Api, sync: bool) -> None:
    provider = api.provider(client=api.client(sync=sync))
    gc.freeze()  # the SDKs and all else that was here before are not looked at for garbage
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scene in (SCENES["in mid-stream"], SCENES["in a silence"], SCENES["before the first byte"]):
            api.server.exchanges.clear()
            api.server.will(scene)
            reading = Reading(provider, api.user("hi"))
            await eventually(lambda: api.server.exchanges and api.server.last.sent)
            await reading.cancel()
            del reading
            gc.collect()
            await asyncio.sleep(0.01)
    await eventually(lambda: not [t for t in threading.enumerate() if t.name == "standfast-model"])


def with_hidden_socket(api: Api, released: threading.Event) -> Any:
    """A provider whose answer breaks off when it is released, and cannot be cut before."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        released.wait(30)
        raise httpx2.ReadError("broken at last")

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return api.provider(client=api.client(sync=True, http_client=http))


async def test_a_sync_client_whose_socket_is_hidden_is_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """R35: what cannot be cut goes on as long as it does; it is not passed off as cut."""
    monkeypatch.setattr("standfast.models.sync_streams.HOLD_OUT", 0.5)
    released = threading.Event()
    provider = with_hidden_socket(api, released)
    reading = Reading(provider, api.user("hi"))
    await asyncio.sleep(0.1)
    begun = time.monotonic()
    await reading.cancel()
    assert time.monotonic() - begun >= 0.4
    assert "socket" in provider.cannot_cut
    released.set()
    await eventually(lambda: not [t for t in threading.enumerate() if t.name == "standfast-model"])


async def test_a_cut_that_cannot_be_made_ends_as_soon_as_the_request_does(api: Api) -> None:
    released = threading.Event()
    provider = with_hidden_socket(api, released)
    reading = Reading(provider, api.user("hi"))
    await asyncio.sleep(0.1)
    reading.task.cancel()
    await asyncio.sleep(0.05)
    reading.task.cancel()  # again: as a runtime does that means it
    await asyncio.sleep(0.05)
    assert not reading.task.done(), "a request that goes on does not look as if it had been cut"
    released.set()
    await asyncio.wait([reading.task], timeout=30)
    assert reading.task.cancelled()
    assert provider.cannot_cut == ""


async def test_a_connection_kept_alive_by_others_is_cut_once_its_headers_are_here(api: Api) -> None:
    """A sync client that has been used before: its request may be on a connection whose socket is not known yet."""
    client = api.client(sync=True)
    with pytest.raises(Exception, match="no such path"):
        await asyncio.to_thread(lambda: client.get("/warm", cast_to=object))
    api.server.will(Answer(acts=[Say("x"), Wait()]))
    provider = api.provider(client=client)
    reading = Reading(provider, api.user("hi"))
    await eventually(lambda: reading.deltas)
    assert api.server.connections == 1
    await reading.cancel()
    exchange = api.server.last
    await eventually(lambda: exchange.gone_at)
    assert provider.cannot_cut == ""


async def test_a_sync_client_in_a_thread_sees_the_context_of_its_call(api: Api) -> None:
    """A transport fence asks a ContextVar whose request this is."""
    whose: ContextVar[str] = ContextVar("whose", default="nobody's")
    seen: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(whose.get())
        return httpx2.Response(500, json={})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    whose.set("mine")
    with pytest.raises(ProviderError):
        await hear(api.provider(client=api.client(sync=True, http_client=http)), api.user("hi"))
    assert seen == ["mine"]
