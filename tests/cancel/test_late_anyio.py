"""anyio that is first imported inside a run is seen too (R39)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_threads_of_anyio_are_owned_although_it_is_imported_in_the_step(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.importing_anyio", str(tmp_path / "runs.db")],
        timeout=60,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    assert done.stdout.split() == ["False", "True", "as", "before"]
