"""What must be true whatever was sent: no 500, a problem that says what to do, nothing changed by what was refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from tests.fuzz.callers import Caller
from tests.fuzz.kept import Watcher
from tests.helpers import database
from tests.server.serving import ROOT, Server
from tests.trials import trials

from standfast.cli.codes import Code
from standfast.records import Answer
from standfast.server.problems import TYPES

MOST_MEMORY = 400_000_000  # bytes of the control process, whatever was sent to it
_answers: TypeAdapter[Answer] = TypeAdapter(Answer)


class World:
    """A server under attack, looked at from outside."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._watcher = Watcher(server.store)
        self._before = self._watcher.look()
        self.compared = 0  # requests that were refused, or only looked, and changed nothing
        self.statuses: Counter[int] = Counter()
        self.answers: Counter[str] = Counter()  # of a socket
        self.faults: list[str] = []  # told together in the end: one fault does not hide the others

    def leave(self) -> None:
        """No more looks."""
        self._watcher.close()

    def went_on(self) -> None:
        """Somebody who may has changed something: from here on."""
        self._before = self._watcher.look()

    def unchanged(self, what: str, said_no: int = 0, but: Collection[str] = ()) -> None:
        """Nothing was changed by it, but runs that said yes to something that was asked together with it.

        What a run said no to is remembered by its request id: as a no, once for each.
        """
        after = self._watcher.look()
        changes = self._watcher.changes(self._before, after, but)
        self._before = after
        self.compared += 1
        assert changes.told == [], f"{what}: it was refused, and changed {changes.told}"
        assert len(changes.requests) <= said_no, f"{what}: it was refused, and remembered {changes.requests}"
        for run, verb, answer in changes.requests:
            assert _is_no(answer), f"{what}: it was refused, and remembered as done: {run} {verb} {answer}"

    def judge(self, answer: Any, caller: Caller, what: str) -> None:
        """One answer; what is wrong with it is told in the end."""
        try:
            self._judge(answer, caller, what)
        except AssertionError as error:
            self.faults.append(str(error))
            self.went_on()

    def _judge(self, answer: Any, caller: Caller, what: str) -> None:
        status = answer.status_code
        self.statuses[status] += 1
        assert status != 500, f"{what}: {answer.text}\n{self.server.log.read_text()[-400:]}"
        if caller.secret:
            assert caller.secret not in answer.text, what
        taken = 0
        if status >= 400:
            body = answer.json()
            assert answer.headers["content-type"] == "application/problem+json", what
            assert body["type"].startswith(TYPES) and body["detail"] and body["status"] == status, what
            assert len(answer.content) < 10_000, f"{what}: a problem is told in a few words"
            taken = body.get("taken", 0)
        acted = status < 400 and answer.request.method not in ("GET", "HEAD", "OPTIONS")
        if acted or taken:  # the problem says how many of several answers were taken before one was refused
            self.went_on()
        else:
            self.unchanged(f"{what}: {status}", said_no=status == 409)

    def close(self, *callers: Caller) -> None:
        """In the end: it answers, a cancel works, the record holds, no secret is anywhere, memory is bounded."""
        assert self.faults == [], "\n\n".join(self.faults)
        assert self.compared > trials(10, 50, 50), "what was refused was compared"
        server = self.server
        assert server.get("/healthz") == {"ok": True}
        for halt in server.get("/api/halts")["halts"]:
            server.post(f"/api/halts/{halt['id']}/lift", {"reason": "over"})
        run = server.start("counter", f"last-{time.monotonic_ns()}", to=1000, seconds=1.0)
        server.until(run, "running")
        assert server.post(f"/api/runs/{run}/cancel", {"reason": "enough"})["answer"] == "accepted"
        assert server.until(run, "cancelled")
        assert memory(server.process.pid) < MOST_MEMORY
        self.leave()
        logged = server.log.read_text()
        assert "Traceback" not in logged, logged[-3000:]
        secrets = [caller.secret for caller in callers if caller.secret]
        assert [s for s in secrets if s in logged] == []
        server.terminate()
        assert [s for s in secrets if s in everything_kept(server.store)] == []
        verified(server.store)


def _is_no(answer: str) -> bool:
    """Is that what a verb is remembered by that was not carried out?"""
    try:
        return not _answers.validate_json(answer)
    except ValidationError:
        return False  # the fingerprint of a run that was made


def everything_kept(store: Path) -> str:
    """All text of a store: record, documents, house."""
    with database(store) as connection:
        kept = "\n".join(line if isinstance(line, str) else repr(line) for line in connection.iterdump())
    connection.close()
    blobs = re.findall(r"X'([0-9A-Fa-f]+)'", kept)
    return "\n".join([kept, *(bytes.fromhex(blob).decode("utf-8", "replace") for blob in blobs)])


def verified(store: Path) -> None:
    """`standfast verify` finds nothing broken."""
    command = [sys.executable, "-m", "standfast.cli", "verify", str(store)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == Code.UNPROVED, told.stdout + told.stderr  # there is no anchor to prove the end by


def memory(pid: int) -> int:
    """Bytes that a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
