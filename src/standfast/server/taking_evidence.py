"""Evidence over HTTP: what a bundle of a run would hold, and the bundle itself as it is on disk."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from typing import IO

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from standfast.abc import Tx
from standfast.control import load
from standfast.errors import KeyUnusable, StandfastError
from standfast.evidence import sealing
from standfast.server.actors import Actor, has
from standfast.server.handlers import answer, body_of, read, run_of
from standfast.server.problems import Problem, problem_of
from standfast.server.sse import SEND_SECONDS
from standfast.server.surface import Surface, parsed

CHUNK = 1 << 18
MOST_DOWNLOADS = 4  # each keeps a file until it was fetched
DOWNLOAD_SECONDS = 900.0  # for one to be fetched
VERIFY = "standfast verify {file} --key PUBLIC.pub --anchor ANCHOR"
HOLDS = (
    "every row of the run's record, with the signed checkpoints that prove it",
    "what was said, with the places where it was stopped",
    "each stop: who, by what, when, what had reached whom",
    "calls in flight, effects, and what was taken back",
    "clocks, redactions, and who was shown this evidence",
    "a report for people, which opens in any browser",
)


class Take(BaseModel):
    """A bundle to be made."""

    model_config = ConfigDict(extra="forbid")

    recipients: list[str] | None = Field(
        default=None,
        max_length=sealing.MOST_RECIPIENTS,
        description="who may read the agent's instructions: some of those the server is set to, or none of them; "
        "left out: all of them. Others need the right operator",
    )
    children: bool = Field(False, description="with the records of its child runs")


async def describe(surface: Surface, _: Actor, request: Request) -> Response:
    run = run_of(request)

    def look(tx: Tx) -> tuple[int, str, int]:
        row = load(tx, run)
        return row.seq, row.agent, len(tx.children(run, live=False))

    events, agent, children = await read(surface, run, look)
    file = _file_name(run)
    return answer(
        {
            "run": run,
            "events": events,
            "children": children,
            "holds": list(HOLDS),
            "sealed_for": list(surface.evidence_for),
            "instructions": agent in surface.instructions(),
            "file": file,
            "verify": VERIFY.format(file=file),
        }
    )


async def take(surface: Surface, actor: Actor, request: Request) -> Response:
    run = run_of(request)
    wanted = parsed(Take, await body_of(request), None)
    recipients = _recipients(surface, actor, run, wanted.recipients)
    if surface.exporting.locked() or len(surface.downloads) >= MOST_DOWNLOADS:
        what = "made" if surface.exporting.locked() else "fetched"
        wait = "try again in a few seconds"
        raise Problem(503, f"other bundles are being {what} just now", wait, headers={"retry-after": "2"}, run=run)
    async with surface.exporting:
        await read(surface, run, lambda tx: load(tx, run))  # no file for a run that is not there
        try:
            file, digest = await _written(surface, actor, run, recipients, children=wanted.children)
        except KeyUnusable as error:
            raise Problem(409, error.message, error.hint, kind="KeyUnusable", run=run) from error
        except StandfastError as error:
            raise problem_of(error, run) from error
        except OSError as error:
            why, hint = error.strerror or str(error), "free space where the store is, then take it again"
            raise Problem(507, f"the bundle was not written: {why}; the run is as it was", hint, run=run) from error
    headers = {
        "content-length": str(file.tell()),
        "content-disposition": f'attachment; filename="{_file_name(run)}"',
        "x-standfast-manifest": digest,
    }
    return Download(surface.downloads, file, headers)


async def _written(
    surface: Surface, actor: Actor, run: str, recipients: list[str], *, children: bool
) -> tuple[IO[bytes], str]:
    """The bundle in a file without a name, which ends with whoever holds it, and the digest of its manifest."""
    with ExitStack() as unless_done:
        file = unless_done.enter_context(tempfile.TemporaryFile(dir=surface.runs.store_path.parent))
        bundle = await surface.runs.write_evidence(
            file,
            run,
            by=actor.name,
            route=actor.route,
            recipients=recipients,
            children=children,
            instructions=surface.instructions(),
        )
        unless_done.pop_all()
        return file, bundle.digest


def _recipients(surface: Surface, actor: Actor, run: str, wanted: list[str] | None) -> list[str]:
    """Whoever takes a bundle does not decide who reads the instructions in it: the server's settings do."""
    if wanted is None:
        return list(surface.evidence_for)
    named = [one.strip() for one in wanted]
    if not has(actor, "operator") and not set(named) <= set(surface.evidence_for):
        detail = f"{actor.name} may not say who else reads the agent's instructions: that needs the right 'operator'"
        hint = "leave recipients out, or choose among those that GET names as sealed_for; nothing was written"
        raise surface.refused(actor, "take_evidence", run, Problem(403, detail, hint, needs="operator"))
    return named


class Download(StreamingResponse):
    """A file that is gone when it was fetched, or its reader is: unread ones would fill the store's disk."""

    def __init__(self, all_of_them: set[Response], file: IO[bytes], headers: dict[str, str]) -> None:
        super().__init__(_pieces(file), headers=headers, media_type="application/zip")
        self._file = file
        self._all = all_of_them
        self._all.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        try:
            async with asyncio.timeout(DOWNLOAD_SECONDS):
                await super().__call__(scope, receive, sending)
        except (TimeoutError, ClientDisconnect):
            return  # the connection is given up
        finally:
            self._all.discard(self)
            self._file.close()


async def _pieces(file: IO[bytes]) -> AsyncGenerator[bytes, None]:
    file.seek(0)
    while piece := await asyncio.to_thread(file.read, CHUNK):
        yield piece


def _file_name(run: str) -> str:
    return f"evidence-{re.sub(r'[^A-Za-z0-9._-]', '_', run)[:80]}.zip"
