"""What differs between the majors of the MCP SDK, behind one door: plain JSON on this side of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from pydantic import ValidationError

from standfast.errors import Misuse
from standfast.records import Json

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


class Refusal(Exception):  # noqa: N818 - a fact, not a fault
    """The server answered a request with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Nonsense(Exception):  # noqa: N818
    """The server answered something that is no answer."""


class Session(Protocol):
    """One MCP session. Requests raise Refusal or Nonsense; a lost connection is a Refusal too."""

    async def initialize(self) -> Json: ...

    async def list_tools(self) -> list[Json]: ...

    async def call_tool(self, name: str, arguments: Json, meta: Json, on_progress: OnProgress) -> Json: ...

    async def cancel(self, request_id: int | str, reason: str) -> None: ...

    async def ping(self) -> None: ...


class Handlers(Protocol):
    """Who is told what the server says by itself."""

    def tools_changed(self) -> None: ...

    def logged(self, text: str) -> None: ...


class Backend(Protocol):
    """One major of the SDK."""

    def to_line(self, message: Any) -> bytes:
        """What a session sends, as a line of JSON."""
        ...

    def from_line(self, line: bytes) -> Any:
        """A line from a server as a session takes it; ValueError if it is no message."""
        ...

    def http(self, url: str, headers: Mapping[str, str], client: Any) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """The two streams of the SDK's streamable HTTP transport."""
        ...

    def session(self, read: Any, write: Any, handlers: Handlers) -> AbstractAsyncContextManager[Session]: ...


def backend() -> Backend:
    """The one for the SDK that is installed; Misuse if there is none that fits."""
    try:
        installed = version("mcp")
    except PackageNotFoundError as error:
        raise Misuse("the MCP SDK is not installed", hint='pip install "standfast[mcp]"') from error
    major = installed.split(".")[0]
    if major == "1":
        from standfast.adapters.mcp._v1 import V1  # noqa: PLC0415 - only one of the two can be imported

        return V1()
    if major == "2":
        from standfast.adapters.mcp._v2 import V2  # noqa: PLC0415

        return V2()
    raise Misuse(f"mcp {installed} is not supported", hint='install "mcp>=1.27,<3"')


class SdkSession:
    """What both majors do alike; the SDK's models come and go as JSON."""

    types: Any  # the SDK's module of message types
    error: Any  # the SDK's class of errors that a server answered

    def __init__(self, session: Any) -> None:
        self._session = session

    async def initialize(self) -> Json:
        answer: Json = await self._told(self._session.initialize())
        return answer

    async def list_tools(self) -> list[Json]:
        found: list[Json] = []
        seen: set[str | None] = {None}
        cursor: str | None = None
        while True:
            page = await self._told(self._session.list_tools(params=self.types.PaginatedRequestParams(cursor=cursor)))
            found += page["tools"]
            cursor = page.get("nextCursor")
            if cursor in seen:  # the end, or a server that turns in circles
                return found
            seen.add(cursor)

    async def ping(self) -> None:
        await self._told(self._session.send_ping())

    async def _told(self, request: Awaitable[Any]) -> Any:
        """The answer as JSON; the SDK's errors as ours."""
        try:
            return plain(await request)
        except self.error as error:
            raise Refusal(error.error.code, error.error.message) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            raise Nonsense(f"{error.title}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except RuntimeError as error:  # an unsupported protocol version, say
            raise Nonsense(str(error)) from error


@asynccontextmanager
async def open_http(url: str, headers: Mapping[str, str], client: Any, httpx: Any) -> AsyncGenerator[tuple[Any, Any]]:
    """The SDK's transport with a client that waits as long as a tool takes; whether the server lives is asked apart."""
    transport: Any = import_module("mcp.client.streamable_http")
    given = client is not None
    if not given:
        make: Any = import_module("mcp.shared._httpx_utils").create_mcp_http_client
        client = make(headers=dict(headers), timeout=httpx.Timeout(30.0, read=None))
    try:
        async with transport.streamable_http_client(url, http_client=client) as streams:
            yield streams[0], streams[1]
    finally:
        if not given:
            await client.aclose()


def plain(model: Any) -> Any:
    """A model of the SDK as the JSON it was on the wire."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def listens_to(handlers: Handlers) -> tuple[Callable[[Any], Awaitable[None]], Callable[[Any], Awaitable[None]]]:
    """The SDK's two callbacks: for messages the session has no use for, and for log lines."""

    async def on_message(message: Any) -> None:
        notification = getattr(message, "root", message)
        if getattr(notification, "method", "") == "notifications/tools/list_changed":
            handlers.tools_changed()

    async def on_log(params: Any) -> None:
        data = params.data
        handlers.logged(data if isinstance(data, str) else str(plain_value(data)))

    return on_message, on_log


def plain_value(value: Any) -> Any:
    """A value of a log line, shown as JSON shows it."""
    return plain(value) if hasattr(value, "model_dump") else value


def request_id(message: Any) -> int | str | None:
    """The id of a request that is being sent; None for anything else."""
    root = getattr(message.message, "root", message.message)
    return root.id if hasattr(root, "method") and hasattr(root, "id") else None
