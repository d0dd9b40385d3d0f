"""--notify: whoever is to be told of a need is told once, also over a restart."""

from __future__ import annotations

import http.server
import json
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import Server, eventually

Serve = Callable[..., Server]
SCRIPT = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"


def told(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_command_gets_each_need_once_also_over_a_restart(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "told.txt"
    command = shlex.join([sys.executable, "-c", SCRIPT, str(file)])
    server = serve("--notify", command).ready()
    run = server.start("shop", "first", item="cup")
    (message,) = eventually(lambda: told(file))
    assert (message["run"], message["agent"], message["need"]["kind"]) == (run, "shop", "question")
    need = message["need"]
    eventually(lambda: known(server, 1))
    server.terminate()

    server = serve("--notify", command).ready()
    server.start("shop", "second", item="pot")
    eventually(lambda: len(told(file)) >= 2)
    server.post(f"/api/runs/{run}/answer", {"call_id": need["call"], "value": "gift"})
    eventually(lambda: len(told(file)) >= 3)
    assert [(one["run"], one["need"]["kind"]) for one in told(file)] == [
        ("first", "question"),
        ("second", "question"),
        ("first", "approval"),
    ]


def known(server: Server, count: int) -> bool:
    """Is it in the store that so many needs were told?"""
    import sqlite3  # noqa: PLC0415

    store = sqlite3.connect(f"file:{server.store}?mode=ro", uri=True)
    try:
        found: int = store.execute("SELECT count(*) FROM requests WHERE verb = 'notify'").fetchone()[0]
    finally:
        store.close()
    return found >= count


@pytest.fixture
def hook() -> Iterator[tuple[str, list[Any]]]:
    """An address that says no the first time."""
    got: list[Any] = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.headers["Content-Type"], json.loads(body)))
            self.send_response(503 if len(got) == 1 else 200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_address_gets_it_by_post_and_again_if_it_says_no(serve: Serve, hook: tuple[str, list[Any]]) -> None:
    url, got = hook
    server = serve("--notify", url).ready()
    server.start("shop", "one")
    eventually(lambda: known(server, 1))
    assert [kind for kind, _ in got] == ["application/json"] * 2
    assert got[0] == got[1]
    assert got[0][1]["need"]["choices"] == ["gift", "none"]
