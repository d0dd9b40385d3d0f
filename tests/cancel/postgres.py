"""A real PostgreSQL server of a test's own, on a port of this machine alone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

STARTING = 60.0  # seconds; only a hang gets there


def programs() -> Path | None:
    """The folder of PostgreSQL's programs: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def as_server() -> list[str]:
    """PostgreSQL refuses to run as root: Debian has a user for it."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


@contextmanager
def postgres() -> Iterator[str]:
    """Its address, while it runs; the test is skipped if it is not installed."""
    folder = programs()
    if folder is None:
        reason = "PostgreSQL is not installed"
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)
        raise AssertionError
    # not below pytest's folder, which other users may not enter
    home = Path(tempfile.mkdtemp(prefix="standfast-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(home, "postgres")
    try:
        with _running(folder, home) as port:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(home)


@contextmanager
def _running(folder: Path, home: Path) -> Iterator[int]:
    data = home / "data"
    make = [folder / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "--no-instructions"]
    subprocess.run([*as_server(), *make], check=True, capture_output=True, cwd=home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("listen_addresses=127.0.0.1", f"unix_socket_directories={home}", "fsync=off")
    serve = [folder / "postgres", "-D", data, "-p", str(port), *(part for one in options for part in ("-c", one))]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen([*as_server(), *serve], stdout=log, stderr=log, cwd=home)
    try:
        _await_ready(folder, server, port, home / "log")
        yield port
    finally:
        # pg_ctl finds the process by the id in its data folder
        stop = [folder / "pg_ctl", "stop", "-D", data, "-m", "fast"]
        subprocess.run([*as_server(), *stop], check=False, capture_output=True, cwd=home)
        server.wait(STARTING)


def _await_ready(folder: Path, server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + STARTING
    while subprocess.run([folder / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
