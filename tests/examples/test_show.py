"""`make show` shows what it claims (R1-R9): its exit code says that every claim was checked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.more
def test_the_demo_pauses_survives_redirects_and_cancels(tmp_path: Path) -> None:
    """R2, R3, R5, R8, R9, R15: looked at once more from outside, in the world's own file."""
    command = [sys.executable, "-m", "examples.show", "--fast", "--folder", str(tmp_path)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=110, check=False)
    assert shown.returncode == 0, shown.stdout[-3000:] + shown.stderr[-3000:]
    assert shown.stderr == ""
    assert "\x1b" not in shown.stdout, "colours only on a terminal"
    for word in ("pausing", "kill -9", "Did tell_team", "what you changed: redirect", "cancelled", "receipt"):
        assert word in shown.stdout
    world = [json.loads(line) for line in (tmp_path / "world.jsonl").read_text().splitlines()]
    assert Counter(effect["did"] for effect in world) == {
        "create draft": 1,
        "tell team": 1,
        "book slot": 3,
        "free slot": 3,
        "discard draft": 1,
    }
    begun = [effect["key"] for effect in world if effect["did"] in ("create draft", "tell team", "book slot")]
    assert len(set(begun)) == len(begun), "no effect twice"
