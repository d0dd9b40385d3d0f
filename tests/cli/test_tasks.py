"""`--task` and a text sent to a server start every agent whose state has one field for it (R1, R36)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.places import standfast_process, terminal
from tests.server.serving import Server

AGENTS = "tests.programs.noting:AGENTS"
RESULTS = [("essayist", "100 words on May"), ("reporter", "1 page on May")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("texts"), "--workers", "1", agents=(AGENTS,))
    try:
        yield one.ready()
    finally:
        one.close()


def result_of(server: Server, run: str) -> str:
    server.until(run, "done")
    return str(server.get(f"/api/runs/{run}/result")["result"])


@pytest.mark.parametrize(("name", "result"), RESULTS)
def test_a_run_in_this_process_begins_with_the_text(tmp_path: Path, name: str, result: str) -> None:
    done = standfast_process("run", f"tests.programs.noting:{name}", "--task", "May", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"done: {result}" in done.stdout


@pytest.mark.parametrize("way", ["store", "server"])
@pytest.mark.parametrize(("name", "result"), RESULTS)
def test_a_run_that_others_drive_begins_with_the_text(server: Server, name: str, result: str, way: str) -> None:
    run = f"{name}-{way}"
    terminal(server, way).type("start", name, "--task", "May", "--id", run)
    assert result_of(server, run) == result


@pytest.mark.parametrize(("name", "result"), RESULTS)
def test_a_run_begins_with_the_text_over_rest(server: Server, name: str, result: str) -> None:
    server.post("/api/runs", {"agent": name, "state": "May", "id": f"{name}-rest"}, status=201)
    assert result_of(server, f"{name}-rest") == result


def test_a_page_is_told_for_which_field_a_text_is(server: Server) -> None:
    agents = {agent["name"]: agent for agent in server.get("/api/agents")["agents"]}
    assert agents["essayist"]["text_field"] == "subject"
