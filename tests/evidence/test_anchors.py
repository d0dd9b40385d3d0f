"""The hash of each checkpoint is kept outside; an anchor that fails is told of, tried again, blocks nobody (R32)."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.evidence.test_notary import statements
from tests.evidence.world import Letters, writer
from tests.helpers import eventually

from standfast import Runtime
from standfast.errors import AnchorFailed, Misuse
from standfast.evidence import anchors
from standfast.evidence.anchors import Anchoring, CommandAnchor, FileAnchor, SyslogAnchor, anchor_named
from standfast.evidence.notary import Notary
from standfast.evidence.store_check import verify_store


async def one_run(path: Path, *named: str) -> Runtime:
    """A run that is driven and signed for, with these anchors."""
    async with Runtime(path, [writer], notary=Notary(anchors=named)) as runs:
        run = await runs.start(writer, Letters(to_send=1))
        await run.pause()
        await run.settled(timeout=120)
    return runs


async def test_a_file_elsewhere_has_a_line_for_each_checkpoint(tmp_path: Path) -> None:
    anchor = tmp_path / "elsewhere"
    for _ in range(2):
        await one_run(tmp_path / "runs.db", f"file:{anchor}")
    lines = [json.loads(line) for line in anchor.read_text().splitlines()]
    assert lines[-1]["n"] == len(statements(tmp_path / "runs.db"))
    assert anchor.stat().st_mode & 0o777 == 0o600
    report = verify_store(tmp_path / "runs.db", anchor=anchor.read_text().splitlines())
    assert any("nothing before it was cut off" in one.text for one in report.of("proved"))


async def test_a_command_gets_each_checkpoint_as_json(tmp_path: Path) -> None:
    script = tmp_path / "hook.py"
    script.write_text(f"import sys; open({str(tmp_path / 'got')!r}, 'a').write(sys.stdin.read() + chr(10))")
    await one_run(tmp_path / "runs.db", f"cmd:{sys.executable} {script}")
    last = json.loads((tmp_path / "got").read_text().splitlines()[-1])
    assert last["n"] == len(statements(tmp_path / "runs.db"))
    assert len(last["hash"]) == 64


async def test_the_systems_log_gets_each_checkpoint(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(tmp_path / "log"))
        log.settimeout(30)
        SyslogAnchor(str(tmp_path / "log")).put('{"n":1}')
        assert log.recv(1000).endswith(b'checkpoint {"n":1}')
    with pytest.raises(AnchorFailed, match="cannot be reached"):
        SyslogAnchor(str(tmp_path / "nothing")).put("x")


def test_a_full_disk_leaves_no_half_a_line(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the write stops in the middle of a line."""
    anchor = FileAnchor(tmp_path / "anchor")
    anchor.put("x" * 60)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            anchor.put("y" * 60)
        except AnchorFailed:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    anchor.put("z" * 60)
    assert anchor.path.read_text() == "x" * 60 + "\n" + "z" * 60 + "\n"


async def test_an_anchor_that_fails_is_told_of_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(anchors, "RETRY_SECONDS", 0.05)
    folder = tmp_path / "not there yet"
    async with Runtime(tmp_path / "runs.db", [writer], notary=Notary(anchors=[f"file:{folder / 'a'}"])) as runs:
        run = await runs.start(writer, Letters(to_send=1))
        await run.pause()
        await run.settled(timeout=120)  # the run does not wait for the anchor
        await eventually(lambda: runs.signing.anchors[0][2])
        assert "cannot be written" in runs.signing.told()["anchors"][0]["trouble"]
        folder.mkdir()
        await eventually(lambda: runs.signing.anchors[0][1] and not runs.signing.anchors[0][2])
    assert "does not take checkpoints" in caplog.text


async def test_an_anchor_that_hangs_holds_up_neither_runs_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("standfast.evidence.notary.CLOSE_SECONDS", 0.3)
    hanging = threading.Event()

    class Hangs:
        name = "hangs"

        def put(self, line: str) -> None:
            hanging.wait(60)

    good = tmp_path / "good"
    async with Runtime(tmp_path / "runs.db", [writer], notary=Notary(anchors=[Hangs(), f"file:{good}"])) as runs:
        run = await runs.start(writer, Letters(to_send=1))
        await run.pause()
        await run.settled(timeout=120)
        await eventually(good.exists)  # the other anchor is told all the same
        began = time.monotonic()
    assert time.monotonic() - began < 20
    hanging.set()
    assert "was not anchored in hangs" in caplog.text


def test_a_command_that_fails_or_hangs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnchorFailed, match="ended with 3: no room"):
        CommandAnchor(f"{sys.executable} -c 'import sys; sys.exit(print(\"no room\", file=sys.stderr) or 3)'").put("x")
    with pytest.raises(AnchorFailed, match="did not end within"):
        CommandAnchor("sleep 60", seconds=0.2).put("x")
    with pytest.raises(AnchorFailed, match="cannot be started"):
        CommandAnchor(str(tmp_path / "nothing")).put("x")


@pytest.mark.parametrize("text", ["", "file:", "cmd:", "cmd: ", "somewhere", "syslog:x"])
def test_an_anchor_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="no anchor"):
        anchor_named(text)


def test_the_newest_checkpoints_are_kept_for_an_anchor_that_does_not_answer() -> None:
    class Never:
        name = "never"

        def put(self, line: str) -> None:
            raise AnchorFailed("no")

    one = Anchoring(Never())
    for n in range(1, anchors.BACKLOG + 10):
        one.tell(n, 0.0, "hash")
    assert one._waiting[-1][0] == anchors.BACKLOG + 9  # pyright: ignore[reportPrivateUsage]
    assert len(one._waiting) == anchors.BACKLOG  # pyright: ignore[reportPrivateUsage]


async def test_a_torn_line_of_an_anchor_is_a_doubt(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    await one_run(tmp_path / "runs.db", f"file:{anchor}")
    report = verify_store(tmp_path / "runs.db", anchor=[*anchor.read_text().splitlines(), '{"n": 3, "ha'])
    assert "1 lines of the anchor cannot be read" in [one.text for one in report.of("unproved")]
    await asyncio.sleep(0)
