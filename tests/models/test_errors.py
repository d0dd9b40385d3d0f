"""Bad input: what a provider may answer instead of an answer, as errors that say what to do."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from email.utils import formatdate
from typing import Any, Literal

import httpx2
import pytest
from tests.helpers import eventually
from tests.models.apis import Api, hear
from tests.providers.scenes import Answer, Fault, Raw, Say, Wait, dies, refuses, says, sends_garbage, sends_html

from standfast import StandfastError
from standfast.models.sdk_errors import retry_after
from standfast.replies import ProviderError, Request, Text

SYNC = pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])


async def error_of(api: Api, *answers: Answer, sync: bool = False) -> ProviderError:
    """The error of one request; there must be just one request."""
    api.server.will(*answers)
    before = len(api.server.exchanges)
    with pytest.raises(ProviderError) as caught:
        await hear(api.provider(client=api.client(sync=sync)), api.user("hi"))
    assert len(api.server.exchanges) - before == len(answers), "the SDK must not retry by itself"
    assert "test-model" in caught.value.message
    assert caught.value.hint
    return caught.value


@SYNC
@pytest.mark.parametrize(
    ("status", "trouble", "hint"),
    [
        (400, "refused", "request"),
        (401, "unauthorised", "_API_KEY"),
        (403, "unauthorised", "_API_KEY"),
        (404, "not_found", "name"),
        (413, "refused", "request"),
        (422, "refused", "request"),
        (429, "rate_limited", "later"),
        (500, "overloaded", "later"),
        (502, "overloaded", "later"),
        (503, "overloaded", "later"),
        (529, "overloaded", "later"),
    ],
)
async def test_a_status_says_what_kind_of_no_it_is(api: Api, status: int, trouble: str, hint: str, sync: bool) -> None:
    error = await error_of(api, refuses(status, "these are the provider's own words"), sync=sync)
    assert (error.trouble, error.status) == (trouble, status)
    assert error.passing == (status == 429 or status >= 500)
    assert "these are the provider's own words" in error.message
    assert hint in error.hint


@pytest.mark.parametrize(("value", "seconds"), [("8", 8.0), ("0.5", 0.5), ("soon", None), ("-3", 0.0), ("inf", None)])
async def test_retry_after_is_passed_on(api: Api, value: str, seconds: float | None) -> None:
    assert (await error_of(api, refuses(429, retry_after=value))).retry_after == seconds


def test_retry_after_may_be_milliseconds_or_a_date() -> None:
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert 50 < (retry_after({"retry-after": formatdate(time.time() + 60)}) or 0) <= 60
    assert retry_after({"retry-after": formatdate(time.time() - 60)}) == 0
    assert retry_after({}) is None


async def test_an_account_without_credit_is_not_worth_another_try(api: Api) -> None:
    kind = "billing_error" if api.name == "anthropic" else "insufficient_quota"
    error = await error_of(api, refuses(429, "You exceeded your current quota", kind=kind))
    assert not error.passing


@SYNC
@pytest.mark.parametrize("how", ["reset", "drop", "short"])
async def test_a_stream_that_dies_half_way_is_no_short_reply(
    api: Api, how: Literal["reset", "drop", "short"], sync: bool
) -> None:
    error = await error_of(api, dies("Half of ", "an answ", how=how), sync=sync)
    assert (error.trouble, error.passing) == ("connection", True)


async def test_what_came_before_a_stream_died_was_passed_on(api: Api) -> None:
    api.server.will(Answer(acts=[Say("Half"), Wait(0.1), *dies(" of it").acts]))
    heard: list[str] = []
    with pytest.raises(ProviderError):
        async with api.provider().stream(Request([api.user("hi")])) as deltas:
            async for delta in deltas:
                if isinstance(delta, Text):
                    heard.append(delta.text)
    assert heard[0] == "Half"


@SYNC
async def test_an_error_inside_a_stream_is_an_error(api: Api, sync: bool) -> None:
    error = await error_of(api, Answer(acts=[Say("Half of"), Fault("overloaded_error", "Overloaded")]), sync=sync)
    assert (error.trouble, error.passing, error.status) == ("overloaded", True, None)
    assert "Overloaded" in error.message


async def test_an_error_inside_a_stream_may_be_final(api: Api) -> None:
    error = await error_of(api, Answer(acts=[Say("Half"), Fault("invalid_request_error", "too long")]))
    assert (error.trouble, error.passing) == ("refused", False)


@SYNC
async def test_a_web_page_is_nonsense(api: Api, sync: bool) -> None:
    error = await error_of(api, sends_html(), sync=sync)
    assert (error.trouble, error.passing) == ("nonsense", False)
    assert "text/html" in error.message
    assert "base_url" in error.hint


async def test_a_web_page_with_an_error_status_is_that_status(api: Api) -> None:
    assert (await error_of(api, sends_html(502))).trouble == "overloaded"


@SYNC
async def test_events_that_are_no_json_are_nonsense(api: Api, sync: bool) -> None:
    assert (await error_of(api, sends_garbage(), sync=sync)).trouble == "nonsense"


@pytest.mark.parametrize(
    "data", [b"3", b'"text"', b"[1, 2]", b'{"type": "content_block_delta"}', b'{"choices": 3}', b'{"choices": [{}]}']
)
async def test_json_that_is_no_event_is_never_taken_for_an_answer(api: Api, data: bytes) -> None:
    raw = Raw(b"event: content_block_delta\ndata: " + data + b"\n\n")
    error = await error_of(api, Answer(acts=[raw, *dies("x", how="short").acts]))
    assert error.trouble in ("nonsense", "connection")


async def test_a_whole_answer_where_a_stream_was_asked_for_is_nonsense(api: Api) -> None:
    body = Answer(body=b'{"id": "x", "choices": []}', headers={"content-type": "application/json"})
    error = await error_of(api, body)
    assert error.trouble == "nonsense"
    assert "stream" in error.message


async def test_a_stream_that_ends_before_it_begins_is_worth_another_try(api: Api) -> None:
    error = await error_of(api, Answer(body=b"", headers={"content-type": "text/event-stream"}))
    assert error.trouble == "connection"


@SYNC
async def test_nobody_listening_says_where_it_looked(api: Api, sync: bool) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        client = api.client(sync=sync, base_url=url)
        with pytest.raises(ProviderError, match=url) as caught:
            await hear(api.provider(client=client), api.user("hi"))
    assert caught.value.trouble == "connection"
    assert "base_url" in caught.value.hint


async def test_a_password_in_the_url_is_not_told(api: Api) -> None:
    url = api.client().base_url.copy_with(username="me", password="hunter2")
    api.server.will(refuses(500))
    with pytest.raises(ProviderError) as caught:
        await hear(api.provider(client=api.client(base_url=str(url))), api.user("hi"))
    assert "hunter2" not in str(caught.value)


async def test_a_key_that_is_missing_says_which_variable_to_set(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    provider = api.provider()
    provider._given = None  # the SDK's default client
    with pytest.raises(ProviderError, match=r"_API_KEY") as caught:
        await hear(provider, api.user("hi"))
    assert caught.value.trouble == "unauthorised"


async def test_a_provider_that_keeps_silent_too_long_is_a_broken_connection(api: Api) -> None:
    api.server.will(Answer(acts=[Say("x"), Wait()]))
    with pytest.raises(ProviderError) as caught:
        await hear(api.provider(client=api.client(timeout=0.3)), api.user("hi"))
    assert caught.value.trouble == "connection"
    await eventually(lambda: api.server.open_connections == 0)


@SYNC
async def test_what_standfast_refuses_below_the_sdk_comes_out_as_it_was(api: Api, sync: bool) -> None:
    """R7: a transport fence inside the client's HTTP client says no in its own words, and is not retried."""

    class Refusal(StandfastError):
        pass

    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise Refusal("the gate of this run is closed")

    transport = httpx2.MockTransport(refuse)
    http = httpx2.Client(transport=transport) if sync else httpx2.AsyncClient(transport=transport)
    with pytest.raises(Refusal, match="gate"):
        await hear(api.provider(client=api.client(sync=sync, http_client=http)), api.user("hi"))


async def test_after_an_error_the_same_provider_answers(api: Api) -> None:
    provider = api.provider()
    for bad in (refuses(500), dies("x"), sends_html(), sends_garbage()):
        api.server.will(bad, says("fine"))
        with pytest.raises(ProviderError):
            await hear(provider, api.user("hi"))
        assert (await hear(provider, api.user("hi"))).text == "fine"
    await asyncio.sleep(0)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_missing_sdk_says_how_to_get_it(name: str) -> None:
    program = f"""
import sys
sys.modules[{name!r}] = None
from standfast import Misuse, models
try:
    models.{name}("m")
except Misuse as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert f"pip install 'standfast[{name}]'" in done.stdout
