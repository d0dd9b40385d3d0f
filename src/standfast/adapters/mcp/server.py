"""An MCP server as a toolbox: connected while it is entered, started again when it has ended."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic import JsonValue
from typing_extensions import TypedDict

from standfast.adapters.mcp.asking import Kill, Rules, perform
from standfast.adapters.mcp.backend import Backend, backend
from standfast.adapters.mcp.connection import Connection, Open
from standfast.adapters.mcp.effects import effect_of
from standfast.adapters.mcp.transports import http_transport, stdio_transport
from standfast.errors import BadTool, Misuse, NotPerformed, ToolServerFailed
from standfast.json_values import is_object
from standfast.records import Effect, Json, Settles
from standfast.schema_tools import SchemaTool
from standfast.toolbox import Toolbox
from standfast.tools import Before, Confirm, Probe, Tool, UndoFn


class ToolOptions(TypedDict, total=False):
    """What can be declared of one tool, as with @tool."""

    effect: Effect
    before: Before | None
    undo: UndoFn | None
    settles: Settles
    probe: Probe | None
    confirm: Confirm
    retries: int
    timeout: float | None
    grace: float


class MCPServer(Toolbox):
    """The tools of one MCP server. Use it as `async with`, around the Runtime; made by `stdio` or `http`."""

    def __init__(
        self,
        name: str,
        open_transport: Open,
        *,
        prefix: str,
        effects: Mapping[str, Effect] | None,
        options: Mapping[str, ToolOptions] | None,
        without: Iterable[str],
        kill: Kill,
        start_timeout: float,
        timeout: float | None,
        grace: float,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.revision = 0
        self._open_transport = open_transport
        self._options: dict[str, ToolOptions] = {tool: {**given} for tool, given in (options or {}).items()}
        for tool, effect in (effects or {}).items():
            self._options.setdefault(tool, {})["effect"] = effect
        self._without = frozenset(without)
        self._kill: Kill = kill
        self._start_timeout = start_timeout
        self._defaults: ToolOptions = {"timeout": timeout, "grace": grace}
        self._backend: Backend | None = None
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._tools: dict[str, SchemaTool[JsonValue]] = {}  # by the server's name for them; those gone stay
        self._entered = False

    # --- life -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> MCPServer:
        """Connect, and find the tools; ToolServerFailed says why that is not possible."""
        if self._entered:
            raise Misuse(f"the MCP server {self.name} is connected already", hint="enter it once, and share it")
        self._backend = backend()
        self._entered = True
        try:
            await self._connected()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        """Disconnect; a server process is asked to end, then killed. Calls in flight fail."""
        self._entered = False
        connecting, connection = self._connecting, self._connection
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait({connecting})
        if connection is not None:
            await connection.close()
        self._connection = self._connecting = None

    @property
    def pid(self) -> int | None:
        """The server's process while it runs; None over HTTP."""
        return None if self._connection is None or not self._connection.alive else self._connection.pid

    async def _connected(self) -> Connection:
        """The live connection, made anew if the last one was lost."""
        if not self._entered:
            raise ToolServerFailed(
                f"the MCP server {self.name} is not connected", hint="enter it (async with ...) around the Runtime"
            )
        if self._connection is not None and self._connection.alive:
            return self._connection
        if self._connecting is None or self._connecting.done():
            # in no run's context, and shared by all who wait: a cut of one of them leaves it alone
            self._connecting = asyncio.get_running_loop().create_task(self._connect(), context=contextvars.Context())
            self._connecting.add_done_callback(_looked_at)
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Connection:
        if self._connection is not None:
            await self._connection.close()
        assert self._backend is not None
        connection = Connection(self.name, self._backend, self._open_transport, self._changed)
        try:
            await connection.open(self._start_timeout)
            self._adopt(await connection.list_tools(self._start_timeout))
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        return connection

    # --- tools ----------------------------------------------------------------------------------------

    @property
    def tools(self) -> Sequence[SchemaTool[JsonValue]]:
        """The server's tools, as they are now; Misuse before it is connected."""
        if not self._tools and not self._entered:
            raise Misuse(
                f"the tools of the MCP server {self.name} are not known yet",
                hint="enter it (async with ...) before the Runtime and before agents are given its tools",
            )
        return [tool for tool in self._tools.values() if not tool.gone]

    def tool(self, name: str) -> SchemaTool[JsonValue]:
        """One tool, by the server's name for it or by ours with the prefix; Misuse names what there is."""
        for tool in self.tools:
            if name in (tool.name, tool.name.removeprefix(self.prefix)):
                return tool
        raise Misuse(
            f"the MCP server {self.name} has no tool {name!r}",
            hint=f"it has {', '.join(tool.name for tool in self.tools) or 'none'}",
        )

    async def call(self, name: str, /, **arguments: Any) -> JsonValue:
        """Call a tool at once: for undo, probe and before. A step uses run.call(server.tool(name)(...))."""
        tool = self.tool(name)
        return await self._perform(tool, name.removeprefix(self.prefix), tool.load_args(tool.parse(arguments).raw))

    async def refresh(self) -> None:
        """Ask the server for its tools again, started anew if need be; what changed holds runs that are resumed."""
        connection = await self._connected()
        self._adopt(await connection.list_tools(self._start_timeout))

    def _changed(self) -> None:
        """The server says that its tools have changed."""
        connection = self._connection
        if connection is not None:
            _ = connection.spawn(self._relist(connection))

    async def _relist(self, connection: Connection) -> None:
        self._adopt(await connection.list_tools(self._start_timeout))

    def _adopt(self, listed: list[Json]) -> None:
        """Take the tools as the server describes them now; the same tool keeps its object."""
        found: dict[str, Json] = {}
        for one in listed:
            name = str(one["name"])
            if name in found:
                raise ToolServerFailed(
                    f"the MCP server {self.name} has two tools called {name!r}", hint="its author must repair that"
                )
            if name not in self._without:
                found[name] = one
        for unknown in self._options.keys() - found.keys() - self._tools.keys():
            raise Misuse(
                f"effects= or options= name {unknown!r}, but the MCP server {self.name} has no such tool",
                hint=f"it has {', '.join(found) or 'none'}",
            )
        before = self._contracts()
        for name, one in found.items():
            self._describe(name, one)
        for name in self._tools.keys() - found.keys():
            self._tools[name].vanish()
        if self._contracts() != before:
            self.revision += 1

    def _describe(self, name: str, one: Json) -> None:
        options: Any = {**self._defaults, **self._options.get(name, {})}
        effect: Effect = options.pop("effect", None) or effect_of(one)
        description = str(one.get("description") or one.get("title") or "")
        schema = one.get("inputSchema")
        output = one.get("outputSchema")
        result_schema = output if is_object(output) else {}
        try:
            known = self._tools.get(name)
            if known is None:
                self._tools[name] = SchemaTool(
                    self.prefix + name,
                    description,
                    schema if is_object(schema) else {},
                    self._body(name),
                    effect=effect,
                    result=JsonValue,
                    result_schema=result_schema,
                    toolbox=self,
                    **options,
                )
            else:
                known.describe(
                    description, schema if is_object(schema) else {}, effect=effect, result_schema=result_schema
                )
        except BadTool as error:
            raise BadTool(
                f"of the MCP server {self.name}: {error.message}",
                hint=f"{error.hint}; or leave it out: without=[{name!r}]",
            ) from error

    def _contracts(self) -> list[tuple[str, Json] | None]:
        return [None if tool.gone else (tool.description, tool.contract) for tool in self._tools.values()]

    def _body(self, name: str) -> Callable[..., Awaitable[JsonValue]]:
        async def body(**arguments: Any) -> JsonValue:
            return await self._perform(self._tools[name], name, arguments)

        return body

    async def _perform(self, tool: Tool[..., Any], name: str, arguments: Json) -> JsonValue:
        rules = Rules(tool.effect, tool.grace, self._kill)
        expected = tool.contract

        async def connect() -> Connection:
            connection = await self._connected()
            if tool.gone:
                raise NotPerformed(f"the MCP server {self.name} no longer has the tool {name}")
            if tool.contract != expected:
                raise NotPerformed(f"the MCP server {self.name} was started again, and its tool {name} has changed")
            return connection

        return await perform(connect, name, arguments, rules, self.name)

    def __repr__(self) -> str:
        return f"<MCP server {self.name}, {len(self._tools)} tools>"


def stdio(
    *argv: str,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    name: str | None = None,
    prefix: str = "",
    effects: Mapping[str, Effect] | None = None,
    options: Mapping[str, ToolOptions] | None = None,
    without: Iterable[str] = (),
    kill: Kill = False,
    start_timeout: float = 30.0,
    timeout: float | None = None,
    grace: float = 2.0,
) -> MCPServer:
    """A server that runs as a child process, started again on the next call after it has ended.

    `env` is added to the few variables a server gets unasked (PATH, HOME ...). `kill` says what becomes of the
    process when a call was cut: False leaves it alone; True kills it, with everything it started, unless it answers
    the cancelled call in time (many servers never do); "stuck" kills it only if it does not answer a ping either.
    """
    if not argv or not all(isinstance(part, str) for part in cast("tuple[Any, ...]", argv)):
        raise Misuse("mcp.stdio() was given no program", hint='name it: mcp.stdio("uvx", "mcp-server-git")')
    return MCPServer(
        name or Path(next((part for part in argv[1:] if not part.startswith("-")), argv[0])).name,
        stdio_transport(argv, env, cwd),
        prefix=prefix,
        effects=effects,
        options=options,
        without=without,
        kill=kill,
        start_timeout=start_timeout,
        timeout=timeout,
        grace=grace,
    )


def http(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    client: Any = None,
    name: str | None = None,
    prefix: str = "",
    effects: Mapping[str, Effect] | None = None,
    options: Mapping[str, ToolOptions] | None = None,
    without: Iterable[str] = (),
    start_timeout: float = 30.0,
    timeout: float | None = None,
    grace: float = 2.0,
) -> MCPServer:
    """A server over streamable HTTP. `client` is an HTTP client as the SDK wants it (httpx, or httpx2 for major 2)."""
    return MCPServer(
        name or urlsplit(url).netloc or url,
        http_transport(url, headers or {}, client),
        prefix=prefix,
        effects=effects,
        options=options,
        without=without,
        kill=False,
        start_timeout=start_timeout,
        timeout=timeout,
        grace=grace,
    )


def _looked_at(task: asyncio.Task[Connection]) -> None:
    if not task.cancelled():
        task.exception()  # whoever waited for it has been told
