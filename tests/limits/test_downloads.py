"""Bundles that nobody fetches to the end do not fill the disk of the store (R34)."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.limits.test_runs import Nothing, waits
from tests.limits.test_server import ann

from standfast import Runtime
from standfast.server import control_app, taking_evidence
from standfast.server.taking_evidence import MOST_DOWNLOADS, Download


async def test_so_many_bundles_are_fetched_at_a_time_and_no_more(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        await runs.start(waits, Nothing(), id="r")
        app = control_app(runs, who=ann)
        downloads: set[Any] = app.state.surface.downloads
        unread = [Download(downloads, io.BytesIO(), {}) for _ in range(MOST_DOWNLOADS - 1)]
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://here") as client:
            assert (await client.post("/api/runs/r/evidence", json={})).status_code == 200
            assert len(downloads) == len(unread), "one that was fetched is gone"
            unread.append(Download(downloads, io.BytesIO(), {}))
            answer = await client.post("/api/runs/r/evidence", json={})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        await app.state.surface.close()


@pytest.mark.parametrize("limit", ["SEND_SECONDS", "DOWNLOAD_SECONDS"])
async def test_a_reader_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(taking_evidence, limit, 0.05)
    downloads: set[Any] = set()
    file = io.BytesIO(b"x" * 100)

    async def never(_: Any = None) -> Any:
        await asyncio.Event().wait()

    async with asyncio.timeout(120):
        await Download(downloads, file, {})({"type": "http"}, never, never)
    assert file.closed and not downloads


async def test_a_full_disk_is_told_as_such_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        return Path("/dev/full").open("w+b", buffering=0)

    def none(**_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with Runtime(tmp_path / "runs.db", [waits], drive=False) as runs:
        await runs.start(waits, Nothing(), id="r")
        app = control_app(runs, who=ann)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://here") as client:
            for disk in (full, none):
                with monkeypatch.context() as patched:
                    patched.setattr(tempfile, "TemporaryFile", disk)
                    answer = await client.post("/api/runs/r/evidence", json={})
                assert (answer.status_code, "No space left" in answer.json()["detail"]) == (507, True)
            assert not app.state.surface.downloads
            assert (await client.post("/api/runs/r/evidence", json={})).status_code == 200
        await app.state.surface.close()
