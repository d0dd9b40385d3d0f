"""Is the committed page what its source builds? `--write` builds it anew.

With npm it is built again and compared byte for byte. Without, a recorded digest tells whether source or
built files have changed since they were built together, so that a clone needs no node to be checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "src" / "standfast" / "server" / "page"
NOTE = BUILT / "built.json"
SOURCES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")


def main() -> int:
    if "--write" in sys.argv:
        build(BUILT)
        NOTE.write_text(json.dumps({"sources": sources(), "built": built(BUILT)}, indent=1) + "\n")
        return 0
    if not NOTE.exists():
        return wrong("the page has not been built")
    note = json.loads(NOTE.read_text())
    if note["built"] != built(BUILT):
        return wrong("a built file was changed by hand")
    if shutil.which("npm") is None:
        if os.environ.get("STANDFAST_REQUIRE_TOOLS"):
            return wrong("npm is absent: the page cannot be built to be compared")
        return 0 if note["sources"] == sources() else wrong("its source has changed since it was built")
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "page"
        build(fresh)
        return 0 if built(fresh) == note["built"] else wrong("its source builds something else")


def wrong(why: str) -> int:
    """Say why, and what to do."""
    sys.stderr.write(f"src/standfast/server/page does not match page/: {why}. Build it: make page\n")
    return 1


def build(into: Path) -> None:
    """Type check the source and build it into a folder."""
    lock, installed = HERE / "package-lock.json", HERE / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        npm("install", "--no-save", "--no-audit", "--no-fund")
    npm("run", "--silent", "check")
    npm("run", "--silent", "build", "--", "--logLevel", "warn", STANDFAST_PAGE_OUT=str(into))


def npm(*arguments: str, **environment: str) -> None:
    subprocess.run(["npm", "--loglevel", "error", *arguments], cwd=HERE, env={**os.environ, **environment}, check=True)


def sources() -> str:
    """One digest of everything the page is built from."""
    files = [*(HERE / name for name in SOURCES), *sorted((HERE / "src").rglob("*"))]
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(f"{file.relative_to(HERE).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def built(folder: Path) -> dict[str, str]:
    """The digest of each built file."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != NOTE.name)
    return {file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


if __name__ == "__main__":
    raise SystemExit(main())
