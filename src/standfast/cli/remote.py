"""Runs behind a server: the same as with a store file, over its REST interface."""

from __future__ import annotations

import asyncio
import builtins
import http.client
import ipaddress
import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, cast
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from standfast.cli.access import Wanted
from standfast.cli.codes import Hidden, Unreachable
from standfast.cli.sse import Stream
from standfast.errors import (
    CallFailed,
    Misuse,
    RunIdTaken,
    StandfastError,
    StoreBusy,
    UnknownAgent,
    UnknownRun,
    WrongState,
)
from standfast.events import Event, MailReturned, PersonActed, RunCancelled, RunDone, RunFailed, TextDelta
from standfast.records import ENDED, Accepted, Answer, Json, Receipt, Refused, RunView
from standfast.shapes import answer_from, event_from, receipt_from, said_from, stops_from, view_from
from standfast.stop_records import StopRecord
from standfast.transcripts import Said

ENDINGS = (RunDone, RunCancelled, RunFailed)
SECONDS = 30.0  # a server that says nothing for so long is not there
MAKING_SECONDS = 300.0  # a bundle is made before its first byte is sent
_KINDS: dict[str, type[StandfastError]] = {
    kind.__name__: kind for kind in (UnknownRun, UnknownAgent, WrongState, RunIdTaken, StoreBusy, CallFailed)
}


@asynccontextmanager
async def opened(url: str, token: str | None, *, insecure: bool = False) -> AsyncGenerator[RemoteAccess, None]:
    """The runs of a server."""
    yield RemoteAccess(url, token, insecure=insecure)


class RemoteAccess:
    """One server. A connection a request: nothing is kept open that could be lost."""

    def __init__(self, url: str, token: str | None, *, insecure: bool = False) -> None:
        self._url = _checked(url, token, insecure)
        self._token = token

    @property
    def where(self) -> str:
        return self._url.geturl().rstrip("/")

    @property
    def options(self) -> str:
        return f" --url {self.where}"

    # --- looking ----------------------------------------------------------------------------------

    async def list(self, wanted: Wanted) -> builtins.list[RunView]:
        query: dict[str, Any] = {"limit": wanted.limit}
        if wanted.status:
            query["status"] = ",".join(wanted.status)
        if wanted.agent is not None:
            query["agent"] = wanted.agent
        if wanted.labels:
            query["label"] = ",".join(f"{name}:{value}" for name, value in wanted.labels.items())
        if wanted.needs is not None:
            query["needs"] = "true" if wanted.needs else "false"
        if wanted.text:
            query["text"] = wanted.text
        body = await self._get("/api/runs", query)
        return [_readable(view) for view in body["runs"]]

    async def view(self, run: str) -> RunView:
        return _readable(await self._get(_path(run)))

    async def state(self, run: str, step: int | None = None) -> Any:
        return await self._get(f"{_path(run)}/state", {} if step is None else {"step": step})

    async def transcript(self, run: str) -> builtins.list[Said]:
        return said_from((await self._get(f"{_path(run)}/transcript"))["transcript"])

    async def receipt(self, run: str) -> Receipt | None:
        status, body = await self._ask("GET", f"{_path(run)}/receipt")
        if status == 409:
            return None
        _raise_for(status, body)
        return receipt_from(body)

    async def stops(self, run: str) -> builtins.list[StopRecord]:
        found: builtins.list[StopRecord] = []
        while True:
            body = await self._get(f"{_path(run)}/stops", {"after": len(found)} if found else {})
            found += stops_from(body["stops"])
            if not body.get("more") or not body["stops"]:
                return found

    async def result(self, run: str) -> Any:
        status, body = await self._ask("GET", f"{_path(run)}/result")
        if status == 409:
            return None
        _raise_for(status, body)
        return body["result"]

    async def calls(self, run: str) -> builtins.list[Json]:
        return cast("builtins.list[Json]", (await self._get(f"{_path(run)}/calls"))["calls"])

    async def record(self, run: str, after: int = 0) -> builtins.list[Event]:
        found: builtins.list[Event] = []
        while page := (await self._get(f"{_path(run)}/record", {"after": after}))["events"]:
            found += [cast("Event", event_from(event)) for event in page]
            after = found[-1].seq
        return found

    async def events(self, run: str, after: int = 0) -> AsyncGenerator[Event | TextDelta, None]:
        path = f"{_path(run)}/events?{urlencode({'after': after})}"
        async with self._stream(path) as stream:
            async for data in stream.messages():
                event = event_from(cast("Json", from_json(data)))
                yield event
                if isinstance(event, ENDINGS):
                    return
        if (await self.view(run)).status not in ENDED:
            raise self._lost(ConnectionError("the server has ended the stream"))

    async def changed(self, seconds: float) -> None:
        async with self._stream("/api/events") as stream:
            try:
                async with asyncio.timeout(seconds):
                    async for _ in stream.messages():
                        return
            except TimeoutError:
                return

    async def agents(self) -> builtins.list[Json]:
        return cast("builtins.list[Json]", (await self._get("/api/agents"))["agents"])

    # --- doing ------------------------------------------------------------------------------------

    async def verb(self, run: str, name: str, args: Json) -> Answer:
        status, body = await self._ask("POST", f"{_path(run)}/{name}", args)
        if status == 409 and isinstance(body.get("answer"), dict):
            return answer_from(body["answer"])
        _raise_for(status, body)
        return answer_from(body)

    async def perform(self, run: str, tool: str, args: Json, reason: str) -> Any:
        answer = await self.verb(run, "perform", {"tool": tool, "args": args, "reason": reason})
        if not isinstance(answer, Accepted):
            why = answer.why if isinstance(answer, Refused) else f"the run is {answer.status}"
            raise Misuse(f"{tool} was not performed: {why}", hint="take-over first")
        stream = self.events(run, max(0, answer.seq - 1))
        try:
            async for event in stream:
                if isinstance(event, PersonActed) and event.order == answer.mail:
                    if event.error:
                        raise CallFailed(event.message, type=event.error, call=event.call)
                    return event.result
                if isinstance(event, MailReturned) and event.mail == answer.mail:
                    break
        finally:
            await stream.aclose()
        raise Misuse(f"{tool} was not performed: the run has ended or was handed back", hint="see standfast show")

    async def would_kill(self, run: str) -> Json:
        status, body = await self._ask("GET", f"{_path(run)}/force")
        if status == 404 and "workers" in str(body.get("detail")):
            return {"pid": None, "kills": f"{body['detail']}: {body.get('hint')}"}
        _raise_for(status, body)
        return cast("Json", body)

    async def start(self, args: Json) -> RunView:
        status, body = await self._ask("POST", "/api/runs", args)
        _raise_for(status, body)
        return _readable(body)

    async def fork(self, run: str, args: Json) -> RunView:
        status, body = await self._ask("POST", f"{_path(run)}/fork", args)
        _raise_for(status, body)
        return _readable(body)

    async def make_token(self, args: dict[str, Any]) -> tuple[dict[str, Any], str]:
        grant = {name: value for name, value in args.items() if value is not None}
        status, body = await self._ask("POST", "/api/tokens", grant)
        _raise_for(status, body)
        return body["token"], body["secret"]

    async def tokens(self) -> builtins.list[dict[str, Any]]:
        return cast("builtins.list[dict[str, Any]]", (await self._get("/api/tokens"))["tokens"])

    async def revoke_token(self, id: str) -> builtins.list[str]:  # noqa: A002
        status, body = await self._ask("DELETE", f"/api/tokens/{quote(id, safe='')}")
        _raise_for(status, body)
        return cast("builtins.list[str]", body["revoked"])

    async def evidence(
        self, run: str, file: IO[bytes], recipients: Sequence[str], children: bool, anchor: Sequence[str]
    ) -> None:
        if anchor:
            raise Misuse("a server does not take the lines of an anchor", hint="give --anchor to standfast verify")
        named: Json = {"recipients": list(recipients)} if recipients else {}  # else: as the server is set
        body: Json = {**named, "children": children}
        await asyncio.to_thread(self._download, f"{_path(run)}/evidence", body, file)

    async def house(self, after: int = 0) -> builtins.list[dict[str, Any]]:
        found: builtins.list[dict[str, Any]] = []
        while (page := await self._get("/api/house", {"after": after}))["last"] > after:
            found += page["events"]
            after = page["last"]
        return found

    # --- over the wire ----------------------------------------------------------------------------

    async def _get(self, path: str, query: Json | None = None) -> Any:
        status, body = await self._ask("GET", f"{path}?{urlencode(query)}" if query else path)
        _raise_for(status, body)
        return body

    async def _ask(self, method: str, path: str, body: Json | None = None) -> tuple[int, Any]:
        return await asyncio.to_thread(self._request, method, path, body)

    def _connection(self, seconds: float = SECONDS) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=seconds)

    def _headers(self) -> dict[str, str]:
        known = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {"Accept": "application/json", "User-Agent": "standfast", **known}

    def _request(self, method: str, path: str, body: Json | None) -> tuple[int, Any]:
        connection = self._connection()
        headers = self._headers() | ({} if body is None else {"Content-Type": "application/json"})
        try:
            connection.request(
                method, self._url.path.rstrip("/") + path, None if body is None else to_json(body), headers
            )
            response = connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        finally:
            connection.close()
        try:
            return response.status, from_json(raw) if raw.strip() else {}
        except ValueError as error:
            raise Unreachable(
                f"{self.where} does not answer as a standfast server ({response.status})", hint="check the address"
            ) from error

    def _download(self, path: str, body: Json, file: IO[bytes]) -> None:
        """The answer as it comes; all of it, or an error."""
        connection = self._connection(MAKING_SECONDS)
        headers = self._headers() | {"Content-Type": "application/json", "Accept": "application/zip"}
        try:
            connection.request("POST", self._url.path.rstrip("/") + path, to_json(body), headers)
            response = connection.getresponse()
            if response.status != 200:
                _raise_for(response.status, _problem(response.read()))
            wanted = int(response.headers.get("content-length") or -1)
            got = 0
            while piece := response.read(1 << 18):
                got += len(piece)
                file.write(piece)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        finally:
            connection.close()
        if got != wanted:
            raise self._lost(ConnectionError(f"{got} of {wanted} bytes came; nothing was kept"))

    @asynccontextmanager
    async def _stream(self, path: str) -> AsyncGenerator[Stream, None]:
        connection = self._connection()
        headers = self._headers() | {"Accept": "text/event-stream"}
        stream = Stream(connection, self._url.path.rstrip("/") + path, headers, self._lost)
        try:
            status, raw = await stream.begin()
            if status != 200:
                _raise_for(status, _problem(raw))
            yield stream
        finally:
            await stream.close()

    def _lost(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"{self.where} cannot be reached: {str(error) or type(error).__name__}",
            hint="is the server running (standfast serve), and is the address right? Its runs are not touched by this",
        )


def _checked(url: str, token: str | None, insecure: bool) -> SplitResult:
    """An address to which a token may be sent."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misuse(f"{url!r} is no address of a server", hint="write it as http://127.0.0.1:8000")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise Misuse("the address carries more than a place", hint="give the token by --token-file or $STANDFAST_TOKEN")
    if token and parts.scheme == "http" and not insecure and not _is_loopback(parts.hostname):
        raise Misuse(
            f"the token would travel to {parts.hostname} in the clear",
            hint="use https://, or --insecure if something else protects the way there; nothing was sent",
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _path(run: str) -> str:
    return f"/api/runs/{quote(run, safe='')}"


def _problem(raw: bytes) -> Json:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return cast("Json", found) if isinstance(found, dict) else {}


def _readable(body: Any) -> RunView:
    try:
        return view_from(body)
    except (ValidationError, AttributeError) as error:
        raise Unreachable(
            f"the server shows runs in a way that this standfast does not know: {error}",
            hint="use the same version of standfast here as there",
        ) from error


def _raise_for(status: int, body: Any) -> None:
    """The error that a problem stands for."""
    if status < 400:
        return
    problem: Json = cast("Json", body) if isinstance(body, dict) else {}
    detail = str(problem.get("detail") or f"the server answered {status}")
    hint = str(problem.get("hint") or "")
    kind = str(problem.get("type") or "").rpartition(":")[2]
    if status == 403 and problem.get("needs") == "view":
        raise Hidden(detail, hint=hint)
    if status in (401, 403):
        more = "give the token that the server printed: --token-file FILE or $STANDFAST_TOKEN"
        raise Unreachable(detail, hint=more if status == 401 else hint)
    if kind in _KINDS:
        raise _KINDS[kind](detail, hint=hint)
    if status >= 500:
        raise Unreachable(detail, hint=hint)
    raise Misuse(detail, hint=hint)
