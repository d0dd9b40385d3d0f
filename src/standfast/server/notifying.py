"""Runs that need someone: a command or an address is called once a need, also over restarts."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import shlex
import subprocess
import urllib.error
import urllib.request
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from standfast.abc import Tx
from standfast.errors import StandfastError
from standfast.json_values import fingerprint
from standfast.runtime import Runtime
from standfast.server.limits import without_secrets
from standfast.server.reading import Filter, Reader
from standfast.shapes import view_json

log = logging.getLogger("standfast")

CALL_SECONDS = 30.0
PAUSES = (1.0, 5.0, 30.0)
LOOK_GAP = 0.5
VERB = "notify"
MOST_TOLD = 1_000  # runs that need someone, newest first, that are looked at in one go


class Notifier:
    """Calls `target` with every need, as JSON: a command gets it on its stdin, an http(s) address by POST.

    That a need was told is kept in the store after it was: a crash in between tells it again, never not at all.
    """

    def __init__(self, runs: Runtime, reader: Reader, target: str) -> None:
        self._runs = runs
        self._reader = reader
        self._target = target
        self._task: asyncio.Task[None] | None = None
        self._told: set[str] = set()  # of the needs that are open: the store remembers all of them

    def start(self) -> None:
        """Needs are told from now on, those that are open already too."""
        self._task = asyncio.create_task(self._follow(), name="standfast notifier")

    async def close(self) -> None:
        """No more calls."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        with self._runs.hub.waiting(None) as waiter:
            while True:
                try:
                    await self._tell_new()
                except StandfastError as error:
                    log.warning("standfast: needs cannot be told just now: %s", error)
                await asyncio.sleep(LOOK_GAP)
                await waiter.wait(5.0)

    async def _tell_new(self) -> None:
        views = await self._reader.found(Filter(needs=True, limit=MOST_TOLD))
        open_ones: set[str] = set()
        for view in views:
            shown = view_json(view)
            for need in shown["needs"]:
                key = f"notify:{fingerprint([view.id, need['id'], need['kind'], need['since']])}"
                open_ones.add(key)
                if key in self._told:
                    continue
                if not await self._reader.read(partial(_known, key)):
                    message = {
                        "run": view.id,
                        "agent": view.agent,
                        "status": view.status,
                        "labels": view.labels,
                        "need": need,
                    }
                    if not await self._call(message):
                        continue  # said in the log; asked again when something changes
                    await self._runs.control(partial(_remember, key, view.id))
                self._told.add(key)
        self._told &= open_ones

    async def _call(self, message: dict[str, Any]) -> bool:
        body = json.dumps(message).encode()
        for pause in (*PAUSES, None):
            try:
                await asyncio.to_thread(self._call_once, body)
            except (OSError, subprocess.SubprocessError, urllib.error.URLError) as error:
                log.warning("standfast: %s could not be told of a need: %s", self._shown, self._said(error))
                if pause is None:
                    return False
                await asyncio.sleep(pause)
            else:
                return True
        return False

    @property
    def _shown(self) -> str:
        """Whom it calls, for the log: without path or arguments, which may be secret."""
        if self._is_address:
            return _origin(self._target)
        return shlex.split(self._target)[0]

    @property
    def _is_address(self) -> bool:
        return self._target.startswith(("http://", "https://"))

    def _said(self, error: Exception) -> str:
        """What went wrong, without the command line that Python puts into it."""
        if isinstance(error, subprocess.CalledProcessError):
            return f"it ended with {error.returncode}"
        if isinstance(error, subprocess.TimeoutExpired):
            return f"it took longer than {CALL_SECONDS:g} s"
        return str(error)

    def _request(self, body: bytes) -> urllib.request.Request:
        """With a name and a password of the address as a header: urllib takes them for a part of the host."""
        parts = urlsplit(self._target)
        headers = {"Content-Type": "application/json"}
        who, at, host = parts.netloc.rpartition("@")
        if at:
            name, _, password = who.partition(":")
            told = f"{unquote(name)}:{unquote(password)}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(told).decode()}"
        return urllib.request.Request(parts._replace(netloc=host).geturl(), body, headers, method="POST")

    def _call_once(self, body: bytes) -> None:
        if self._is_address:
            with _OPENER.open(self._request(body), timeout=CALL_SECONDS) as response:
                response.read(1000)
        else:
            argv = shlex.split(self._target)
            subprocess.run(
                argv, input=body, timeout=CALL_SECONDS, check=True, start_new_session=True, env=without_secrets()
            )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """What a run needs is told to the address that was given, and to no other that this one names."""

    def redirect_request(
        self,
        req: Any,
        fp: Any,
        code: int,
        msg: str,  # noqa: ARG002 - urllib's
        headers: Any,
        newurl: str,
    ) -> None:
        """Not followed, not even on the same host: a redirected POST arrives as a GET without the need in it."""
        why = f"it redirects to {_where(newurl, req.full_url)}, which is not followed: give that address"
        raise urllib.error.HTTPError(req.full_url, code, why, headers, fp)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _where(url: str, given: str) -> str:
    """Where it leads, without what may be secret: name, password, query, and what stands in the given path too."""
    known = {part for part in urlsplit(given).path.split("/") if part}
    path = "/".join("…" if part in known else part for part in urlsplit(url).path.split("/"))
    return f"{_origin(url)}{path}"


_OPENER = urllib.request.build_opener(_NoRedirects)


def _known(key: str, tx: Tx) -> bool:
    return tx.answered(key) is not None


def _remember(key: str, run: str, tx: Tx) -> None:
    if tx.answered(key) is None:
        tx.remember(key, run, VERB, "told")
