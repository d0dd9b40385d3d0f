"""Workers that are wedged, frozen or dead do not keep anybody from stopping a run (R6, R34)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import database
from tests.server.serving import LONG, Server, eventually, leftovers

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes

Serve = Callable[..., Server]


def world(server: Server) -> list[str]:
    file = server.folder / "world.txt"
    return file.read_text().split() if file.exists() else []


def stuck(server: Server, how: str, run: str = "stuck", **state: Any) -> str:
    """A run that has drafted something and is now in the midst of being stuck."""
    server.start("wedger", run, how=how, folder=str(server.folder), **state)
    eventually((server.folder / f"stuck-{run}").exists)
    eventually(lambda: server.view(run)["in_flight"])
    return run


def test_a_blocked_event_loop_does_not_block_a_verb_and_is_killed_after_its_deadline(serve: Serve) -> None:
    """The draft can only be undone by code that the blocked worker has: another one undoes it."""
    server = serve("--stop-deadline", "2").ready()
    run = stuck(server, "loop")
    old = server.workers()
    began = time.monotonic()
    assert server.post(f"/api/runs/{run}/cancel")["answer"] == "accepted"
    assert time.monotonic() - began < 20
    assert server.until(run, "cancelled")
    assert world(server) == ["drafted", "undone"]
    receipt = server.get(f"/api/runs/{run}/receipt")
    assert [undone["outcome"] for undone in receipt["undone"]] == ["undone"]
    assert server.ready().workers() != old
    assert "event loop is blocked" in server.get("/readyz")["workers"][0]["last_end"]


def test_stopped_code_that_blocks_a_worker_does_not_starve_its_other_runs(serve: Serve) -> None:
    """R34: the stop has settled without the event loop; the runs beside it still need one."""
    server = serve("--stop-deadline", "2").ready()
    other = server.start("counter", "other", to=100_000, seconds=0.2)
    eventually(lambda: server.view(other)["step"] >= 1)
    run = stuck(server, "loop")
    server.post(f"/api/runs/{run}/pause")
    server.until(run, "paused")
    step = server.view(other)["step"]
    eventually(lambda: server.view(other)["step"] > step)
    (worker,) = server.ready().get("/readyz")["workers"]
    assert f"code of run {run}" in worker["last_end"]


def test_force_names_and_kills_the_worker_and_other_runs_recover(serve: Serve) -> None:
    server = serve("--stop-deadline", "600").ready()
    other = server.start("counter", "other", to=100_000, seconds=0.2)
    eventually(lambda: server.view(other)["step"] >= 1)
    run = stuck(server, "loop")
    assert server.post(f"/api/runs/{run}/force", status=409)["answer"]["choices"][0]["verb"] == "cancel"
    server.post(f"/api/runs/{run}/cancel")
    would = server.get(f"/api/runs/{run}/force")
    (pid,) = server.workers()
    assert (would["pid"], would["others"]) == (pid, [other])
    assert "block_loop" in would["kills"]
    key = {"request_id": "force-1", "reason": "it hangs"}
    answer = server.post(f"/api/runs/{run}/force", key)
    assert f"pid {pid}" in answer["note"]
    server.until(run, "cancelled")
    assert server.post(f"/api/runs/{run}/force", key) == answer, "asked again, answered as before"
    assert world(server) == ["drafted", "undone"]
    noted = [event for event in server.events(run) if event["type"] == "verb_noted" and event["verb"] == "force"]
    assert [(event["by"], event["reason"]) for event in noted] == [("operator", "it hangs")]
    step = server.view(other)["step"]
    eventually(lambda: server.view(other)["step"] > step + 1)
    server.post(f"/api/runs/{other}/cancel")
    server.post(f"/api/runs/{run}/force", status=409)


def test_force_on_a_pause_that_waits_for_a_write_leaves_it_in_doubt(serve: Serve) -> None:
    """R15: what the killed worker was doing is not assumed, neither way."""
    server = serve().ready()
    run = stuck(server, "write")
    server.post(f"/api/runs/{run}/pause")
    assert server.until(run, "pausing")["waiting_for"].startswith("slow_write")
    server.post(f"/api/runs/{run}/force")
    assert server.until(run, "paused")["holds"] == ["user"]
    assert server.get(f"/api/runs/{run}/receipt")["in_flight"][0]["outcome"] == "in_doubt"
    server.post(f"/api/runs/{run}/resume")
    need = eventually(lambda: server.view(run)["needs"])[0]
    assert need["kind"] == "doubt"
    assert {"decision": "not_happened"} in need["choices"]
    answer = server.post(
        f"/api/runs/{run}/resolve", {"call_id": need["call"], "decision": "happened", "result": "seen"}
    )
    assert answer["answer"] == "accepted"
    server.until(run, "done")


def test_a_blocked_thread_does_not_block_a_verb(serve: Serve) -> None:
    server = serve().ready()
    run = stuck(server, "thread", seconds=3600)
    assert server.post(f"/api/runs/{run}/cancel")["answer"] == "accepted"
    server.until(run, "cancelled")
    receipt = server.get(f"/api/runs/{run}/receipt")
    assert "block_thread" in str(receipt["in_flight"])


def test_a_frozen_worker_is_killed_before_another_takes_its_runs_over(serve: Serve) -> None:
    """A process that is only frozen could wake up and go on: it is dead for good first."""
    server = serve("--workers", "2", "--lease", "3").ready()
    run = server.start("counter", "frozen", to=10_000, seconds=0.1)
    view = eventually(lambda: (view := server.view(run))["step"] >= 1 and view)
    pid = holder_pid(server, run)
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: server.view(run)["driver"] not in ("", view["driver"]))
    assert not alive(pid)
    step = server.view(run)["step"]
    eventually(lambda: server.view(run)["step"] > step)
    ends = [each["last_end"] for each in server.ready().get("/readyz")["workers"]]
    assert any("frozen" in end for end in ends)
    server.post(f"/api/runs/{run}/cancel")


def test_a_worker_frozen_inside_a_commit_does_not_lock_out_a_verb(serve: Serve) -> None:
    """It keeps SQLite's lock: whoever asks for a stop gets it, because the server kills its own worker."""
    server = serve("--lease", "600").ready()
    run = server.start("counter", "locked", to=1_000_000, seconds=0.0)
    eventually(lambda: server.view(run)["step"] >= 1)
    (pid,) = server.workers()
    freeze_inside_a_commit(server, pid)
    assert server.post(f"/api/runs/{run}/pause")["answer"] == "accepted", "the first time somebody asks"
    assert not alive(pid)
    server.until(run, "paused")


def freeze_inside_a_commit(server: Server, pid: int) -> None:
    """SIGSTOP until one of them hits while the worker holds the write lock."""
    from standfast.stores.sqlite import lock_holder  # noqa: PLC0415

    end = time.monotonic() + LONG
    while time.monotonic() < end:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.01)
        if lock_holder(server.store) == pid:
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.003)
    raise AssertionError("the worker was never frozen inside a commit")


def test_a_worker_that_dies_is_replaced_and_its_runs_go_on(serve: Serve) -> None:
    server = serve().ready()
    run = server.start("counter", "orphan", to=10_000, seconds=0.05)
    eventually(lambda: server.view(run)["step"] >= 2)
    (pid,) = server.workers()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: server.http.get("/readyz").status_code == 503)
    step = server.view(run)["step"]
    server.ready()
    eventually(lambda: server.view(run)["step"] > step + 1)
    server.post(f"/api/runs/{run}/cancel")


def test_agents_that_cannot_be_loaded_are_said_to_be_so_and_verbs_still_work(serve: Serve) -> None:
    server = serve(agents=("tests.programs.served:counter",)).ready()
    run = server.start("counter", "kept", to=100_000, seconds=0.05)
    server.terminate()
    server = serve(agents=("tests.programs.no_such_module:counter",))
    body = eventually(lambda: (said := server.http.get("/readyz").json())["workers"][0]["last_end"] and said)
    assert body["status"] == 503
    assert "code 78" in body["workers"][0]["last_end"]
    assert "cannot be imported" in server.log.read_text()
    assert server.post(f"/api/runs/{run}/pause")["answer"] == "accepted"
    assert server.until(run, "paused")


def test_a_server_without_agents_only_controls(serve: Serve) -> None:
    """It holds no agent code; it starts runs by their stored schemas."""
    driving = serve().ready()
    control = serve(agents=())
    assert {**control.get("/readyz"), "record": None} == {"ready": True, "workers": [], "record": None}
    run = control.start("counter", "by-name", to=2)
    assert control.until(run, "done")
    control.post("/api/runs", {"agent": "counter", "state": {"to": "x"}}, status=422)
    assert control.post(f"/api/runs/{run}/force", status=409)["answer"]["answer"] == "too_late"
    assert driving.workers()


def test_workers_leave_when_the_control_process_is_killed(serve: Serve) -> None:
    server = serve("--workers", "2").ready()
    run = server.start("counter", "kept", to=100_000, seconds=0.05)
    eventually(lambda: server.view(run)["step"] >= 1)
    server.kill()
    eventually(lambda: not leftovers(server.store))
    server = serve().ready()
    step = server.view(run)["step"]
    eventually(lambda: server.view(run)["step"] > step)
    server.post(f"/api/runs/{run}/cancel")


def holder_pid(server: Server, run: str) -> int:
    """The process that drives a run."""

    with database(f"file:{server.store}?mode=ro", uri=True) as store:
        found = store.execute(
            "SELECT pid FROM leases JOIN runs ON holder = leases.id WHERE runs.id = ?", (run,)
        ).fetchone()
    store.close()
    return int(found[0])


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_agents_that_can_never_be_loaded_end_the_server_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    command = [sys.executable, "-m", "standfast.cli", "serve", "broken:AGENTS", "--port", "0"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert told.returncode == 1, told.stderr
    assert "broken.py, line 1" in told.stderr
    assert "no worker can load broken:AGENTS" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_start_before_the_workers_are_there_is_told_to_try_again(serve: Serve) -> None:
    """Nobody knows yet that there is no such agent: 503, not 422."""
    server = serve(agents=("tests.programs.served_late:AGENTS",))
    answer = server.http.post("/api/runs", json={"agent": "counter", "state": {"to": 1}})
    assert answer.status_code == 503, answer.text
    assert answer.headers["retry-after"] == "1"
    assert server.ready().post("/api/runs", {"agent": "counter", "state": {"to": 1}}, status=201)
    assert server.post("/api/runs", {"agent": "nobody", "state": {}}, status=422)
