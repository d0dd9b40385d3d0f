"""What we stand on is locked, and asked about (R32: whoever trusts the record trusts what writes it)."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "locked" / "dependencies.txt"
EXTRAS = ("openai", "anthropic", "mcp", "cli", "tui", "server", "test", "check")


def locked() -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text("utf-8"), re.MULTILINE))


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *(line for name in EXTRAS for line in project["optional-dependencies"][name])]
    return [one for one in map(Requirement, lines) if one.name != "standfast"]


def test_every_dependency_is_locked_to_a_version_that_fits() -> None:
    versions = locked()
    for requirement in wanted():
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not locked: make lock"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement} is locked to {version}"


def test_every_locked_version_has_hashes_and_names_no_place() -> None:
    text = LOCK.read_text("utf-8")
    for entry in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry, entry
    assert "://" not in text
    assert "file:" not in text


@contextmanager
def known_faults(faulty: str) -> Iterator[str]:
    """A real list of faults on this machine, that knows one of them."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            about = asked["package"]["name"]
            fault = {"id": "STANDFAST-TEST-1", "summary": "", "details": "bad", "modified": "2026-01-01T00:00:00Z"}
            fault["affected"] = [{"package": {"name": about, "ecosystem": "PyPI"}, "ranges": []}]  # type: ignore[assignment]
            body = json.dumps({"vulns": [fault]} if about == faulty else {}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _needs_pip_audit() -> None:
    if importlib.util.find_spec("pip_audit") is None:
        reason = "pip-audit is not installed (make check installs it)"
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)


def audited(url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "locked" / "audit.py"), "--vulnerability-service", "osv", "--osv-url", url]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize("faulty", ["starlette", "nothing-we-use"])
def test_a_known_fault_fails_the_check_and_is_named(faulty: str) -> None:
    _needs_pip_audit()
    with known_faults(faulty) as url:
        told = audited(url)
    if faulty == "starlette":
        assert told.returncode == 1, told.stderr
        assert "starlette" in told.stdout
        assert "STANDFAST-TEST-1" in told.stdout
    else:
        assert told.returncode == 0, told.stderr
        assert "no known faults" in told.stdout
        assert "NOT AUDITED" not in told.stdout


def test_where_nobody_can_be_asked_the_audit_says_so() -> None:
    _needs_pip_audit()
    told = audited("http://127.0.0.1:9/v1/query")
    assert told.returncode == 0
    assert "NOT AUDITED" in told.stdout
