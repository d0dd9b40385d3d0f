"""The MCP SDK of major 2. It tells a server that a call was given up when the call's own task is cancelled.

Here the server is told by hand, as with major 1, so that an answer that comes all the same is still seen.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

from standfast.adapters.mcp.backend import Handlers, OnProgress, SdkSession, Session, listens_to, open_http
from standfast.records import Json

# Untyped on purpose: a checker sees one major only, and these names differ in the other.
types: Any = import_module("mcp.types")
SessionMessage: Any = import_module("mcp.shared.message").SessionMessage


class V2:
    """backend.Backend for major 2."""

    def to_line(self, message: Any) -> bytes:
        line: str = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        return line.encode()

    def from_line(self, line: bytes) -> Any:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))

    def http(self, url: str, headers: Mapping[str, str], client: Any) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        return open_http(url, headers, client, import_module("httpx2"))

    @asynccontextmanager
    async def session(self, read: Any, write: Any, handlers: Handlers) -> AsyncGenerator[Session]:
        client_session: Any = import_module("mcp.client.session").ClientSession
        on_message, on_log = listens_to(handlers)
        async with client_session(read, write, message_handler=on_message, logging_callback=on_log) as session:
            yield SessionV2(session)


class SessionV2(SdkSession):
    """backend.Session for major 2."""

    types = types
    error = import_module("mcp.shared.exceptions").MCPError

    async def call_tool(self, name: str, arguments: Json, meta: Json, on_progress: OnProgress) -> Json:
        params = types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta)
        request = types.CallToolRequest(params=params)
        asked = self._session.send_request(request, types.CallToolResult, progress_callback=on_progress)
        answer: Json = await self._told(asked)
        return answer

    async def cancel(self, request_id: int | str, reason: str) -> None:
        params = types.CancelledNotificationParams(request_id=request_id, reason=reason)
        await self._session.send_notification(types.CancelledNotification(params=params))
