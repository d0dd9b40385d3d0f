"""--notify: whoever is to be told of a need is told once, also over a restart."""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.server.serving import Server, eventually

from standfast.server.notifying import Notifier

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes

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


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_an_address_that_names_another_one_is_not_followed(caplog: pytest.LogCaptureFixture, code: int) -> None:
    """What a run needs is for whom the operator named: not for a host that this one, or somebody on the way, names."""
    asked: list[str] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(code if self.path.startswith("/hook") else 200)
            if self.path.startswith("/hook"):
                self.send_header(
                    "Location", f"http://me:key@localhost:{self.server.server_address[1]}/hook/moved?token=key"
                )
            self.end_headers()

        do_GET = do_POST  # noqa: N815 - the library's

        def log_message(self, *_: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        told = Notifier(cast("Any", None), cast("Any", None), f"http://127.0.0.1:{server.server_port}/hook?token=key")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("standfast.server.notifying.PAUSES", ())
            assert not asyncio.run(told._call({"run": "r"}))  # pyright: ignore[reportPrivateUsage]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert asked == ["POST /hook?token=key"]
    (line,) = (record.message for record in caplog.records if "redirects" in record.message)
    assert f"http://127.0.0.1:{server.server_port} could not be told" in line
    assert f"it redirects to http://localhost:{server.server_port}/…/moved, which is not followed" in line
    assert "key" not in line


@pytest.mark.parametrize(
    ("given", "sent"),
    [("ann:pass", "ann:pass"), ("ann:p%40ss%2Fword", "ann:p@ss/word"), ("ann", "ann:"), (":key", ":key")],
)
def test_a_name_and_a_password_in_the_address_are_sent_as_basic_authentication(
    hook: tuple[str, list[Any]], given: str, sent: str
) -> None:
    url, got = hook
    told = Notifier(cast("Any", None), cast("Any", None), url.replace("://", f"://{given}@"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("standfast.server.notifying.PAUSES", (0.0,))
        assert asyncio.run(told._call({"run": "r"}))  # pyright: ignore[reportPrivateUsage]
    assert [one for _, one in got] == [{"run": "r"}] * 2
    request = told._request(b"")  # pyright: ignore[reportPrivateUsage]
    assert base64.b64decode(str(request.get_header("Authorization")).removeprefix("Basic ")).decode() == sent
    assert request.full_url == url
