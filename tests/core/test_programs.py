"""The two programs of the API's contract run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"


def run_program(name: str, folder: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    argv = [sys.executable, "-W", "error", PROGRAMS / name]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_pipeline_program_writes_its_memo(tmp_path: Path) -> None:
    """R2, R14: stages, a read, a write with before and undo, the final state as result."""
    out = run_program("api_churn.py", tmp_path)
    assert out == "['Acme', 'Globex'] Write summary memo: Acme, Globex\n"
    assert (tmp_path / "memo.txt").read_text() == "Write summary memo: Acme, Globex"


def test_the_pipeline_program_runs_again_on_its_own_store(tmp_path: Path) -> None:
    """R2: a store that a finished process left is as good as a new one."""
    first, second = run_program("api_churn.py", tmp_path), run_program("api_churn.py", tmp_path)
    assert first == second


def test_the_drafts_program_is_cancelled_with_a_receipt(tmp_path: Path) -> None:
    """R6, R8, R9: every draft of the run is discarded, and no call began after the cancel."""
    *discards, last = run_program("api_drafter.py", tmp_path).splitlines()
    steps, rest = last.split(" ", 1)
    outcomes, after = rest.rsplit(" ", 1)
    assert int(steps) >= 1
    assert after == "0"
    undone = outcomes.count("'undone'")
    assert undone == outcomes.count("'") // 2  # nothing but "undone"
    # finished drafts, and the one that was cut in mid-flight, newest first, each by its own key
    assert int(steps) <= undone <= int(steps) + 1
    keys = [line.removeprefix("discard ") for line in discards]
    assert len(keys) == len(set(keys)) == undone


@pytest.mark.parametrize("name", ["api_churn.py", "api_drafter.py"])
def test_a_program_leaves_only_its_own_files(name: str, tmp_path: Path) -> None:
    """R37: one file to start with, and the key that signs for it; SQLite's companions are gone after a clean exit."""
    run_program(name, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} <= {"runs.db", "runs.db.key", "runs.db.pub", "memo.txt"}
