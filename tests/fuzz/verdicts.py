"""What becomes of a command that has a process of its own: it ends with a code, or it is at work and answers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
from tests.server.serving import LONG, ROOT, leftovers

from standfast.operator.client import ask_socket


@dataclass(frozen=True)
class Verdict:
    """How it ended, what it said on the way, and whether it was at work before it was told to go."""

    code: int
    said: str
    at_work: bool


def verdict(line: list[str], said: Path) -> Verdict:
    """Run the command until it ends by itself, or is seen to be at work; then it is told to go, and must."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("STANDFAST_")}
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "standfast.cli", *line],
            cwd=ROOT,
            env={**env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        at_work = _until(process, lambda: ANSWERS.get(line[0], _never)(said.read_text("utf-8", "replace"), line))
        if at_work:
            process.send_signal(signal.SIGTERM)
        return Verdict(process.wait(LONG), said.read_text("utf-8", "replace"), at_work)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(LONG)
        store = Path(line[line.index("--store") + 1])
        for pid in (*leftovers(store), *leftovers(store, "standfast.operator")):
            os.killpg(pid, signal.SIGKILL)


def _until(process: subprocess.Popen[bytes], answers: Callable[[], bool]) -> bool:
    """True if it is at work, False if it has ended."""
    end = time.monotonic() + LONG
    while process.poll() is None:
        if answers():
            return True
        assert time.monotonic() < end, "it has neither ended nor answered"
        time.sleep(0.05)
    return False


def _server_answers(said: str, line: list[str]) -> bool:
    found = re.search(r"^standfast: (https?://\S+)/$", said, re.MULTILINE)
    if found is None:
        return False
    if "--token-file" in line:
        token = Path(line[line.index("--token-file") + 1]).read_text().strip()
    else:
        told = re.search(r"^token: (\S+)$", said, re.MULTILINE)
        token = told[1] if told else ""
    if not token:
        return False
    try:
        answer = httpx2.get(f"{found[1]}/healthz", headers={"Authorization": f"Bearer {token}"}, timeout=LONG)
    except httpx2.TransportError:
        return False  # not yet, or no more
    return bool(answer.json() == {"ok": True})


def _operator_answers(said: str, _: list[str]) -> bool:
    """What it cannot do for a broken store it says, with a hint."""
    found = re.search(r"^operator: (\S+)$", said, re.MULTILINE)
    if found is None:
        return False
    answer = ask_socket(Path(found[1]), {"do": "list"})
    return bool("halts" in answer if answer["ok"] else answer["detail"] and answer["hint"])


def _never(_: str, __: list[str]) -> bool:
    return False


ANSWERS = {"serve": _server_answers, "operator": _operator_answers}
