"""R26, R28: a client that joins a stream in the middle of a text gets the text so far first, by every way there is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

import httpx2
import pytest
from tests.providers.scenes import drips
from tests.providers.server import LoopbackProvider
from tests.server.serving import LONG, Server
from tests.stops.clients import Heard, Page, page

TIMES = 4  # one of them might join just when everything said so far is on record


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as one:
        yield one


@pytest.fixture(scope="module")
def server(provider: LoopbackProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", provider.openai_url)
        patch.setenv("OPENAI_API_KEY", "test")
        one = Server(tmp_path_factory.mktemp("joining"), agents=("tests.programs.streaming:AGENTS",))
        try:
            yield one.ready()
        finally:
            one.close()


@pytest.fixture
def run(server: Server, provider: LoopbackProvider) -> str:
    """A run that speaks on and on."""
    provider.will(drips())
    run = f"j-{uuid.uuid4().hex[:12]}"
    server.post("/api/runs", {"agent": "talker", "state": {"task": "Tell me a story"}, "id": run}, status=201)
    return run


def first_text(heard: Heard, next_one: Callable[[], None]) -> str:
    """What a client has as soon as it has anything; a gap in it fails."""
    while not heard.text:
        next_one()
    return heard.text


def test_a_page_gets_the_text_so_far_first(server: Server, run: str) -> None:
    with page(server, run, "from the start") as first:
        first.until_text("token30 ")
        for _ in range(TIMES):
            with page(server, run, "joining") as joining:
                assert first_text(joining, joining.next).startswith("token0 token1 ")
                _reads_on(joining)
            first.next()


def _reads_on(joining: Page) -> None:
    """Live text goes on without a gap, in pieces."""
    live = joining.types.count("text_delta")
    while joining.types.count("text_delta") < live + 5:
        joining.next()
        assert joining.text


def test_a_reader_of_server_sent_events_gets_the_text_so_far_first(server: Server, run: str) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    with page(server, run, "from the start") as first, httpx2.Client(base_url=server.url, timeout=LONG) as http:
        first.until_text("token30 ")
        for _ in range(TIMES):
            joining = Heard()
            with http.stream("GET", f"/api/runs/{run}/events", headers=headers) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        joining.take(json.loads(line[6:]))
                    assert not joining.text or joining.text.startswith("token0 token1 ")
                    if joining.types.count("text_delta") == 5:
                        break


def test_an_agui_client_gets_the_text_so_far_first(server: Server, run: str) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    body = {"threadId": "t", "state": None, "messages": [], "tools": [], "context": [], "forwardedProps": {}}
    with page(server, run, "from the start") as first, httpx2.Client(base_url=server.url, timeout=LONG) as http:
        first.until_text("token30 ")
        for n in range(TIMES):
            pieces: list[str] = []
            with http.stream("POST", f"/agui/runs/{run}", json=body | {"runId": f"a{n}"}, headers=headers) as answer:
                for line in answer.iter_lines():
                    told = json.loads(line[6:]) if line.startswith("data: ") else {}
                    if told.get("type") == "TEXT_MESSAGE_CONTENT":
                        pieces.append(told["delta"])
                    if len(pieces) == 10:
                        break
            words = "".join(pieces).split(" ")[:-1]
            assert words == [f"token{at}" for at in range(len(words))]
