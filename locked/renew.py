"""Write locked/dependencies.txt anew: every package that standfast and its tests can install, by version and hash.

Run by `make lock`. Slow: it asks the index for every file of every version.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOCK = HERE / "dependencies.txt"
EXTRAS = ("test", "check", "local")
HEAD = """\
# Versions and hashes of everything standfast can install, for Python 3.11; written by `make lock`.
# The Makefile takes the versions; to insist on the hashes too:
#   pip install --require-hashes -r locked/dependencies.txt && pip install --no-deps standfast
"""


def compiled(old: Path) -> str:
    """What pip-compile makes of pyproject.toml; versions that still fit stay as they are."""
    extras = [part for extra in EXTRAS for part in ("--extra", extra)]
    quiet = ["--quiet", "--no-header", "--no-annotate", "--strip-extras"]
    silent = ["--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links", "--no-emit-options"]
    command = [sys.executable, "-m", "piptools", "compile", "--generate-hashes", *quiet, *silent, *extras]
    subprocess.run([*command, "--output-file", str(old), "pyproject.toml"], check=True, cwd=HERE.parent)
    return old.read_text("utf-8")


def without_ourselves(text: str) -> str:
    """standfast stands in its own lock by a path of this machine: left out, with what pip-compile says about it."""
    kept = list[str]()
    for entry in text.replace(" \\\n", "\0").splitlines():
        if entry and not entry.startswith(("standfast @", "#", "--")):
            kept.append(entry.replace("\0", " \\\n"))
    return "\n".join(kept) + "\n"


if __name__ == "__main__":
    working = HERE / "compiling.txt"
    working.write_text(LOCK.read_text("utf-8") if LOCK.exists() else "", "utf-8")
    try:
        LOCK.write_text(HEAD + without_ourselves(compiled(working)), "utf-8")
    finally:
        working.unlink()
