"""A real MCP server, made with the SDK of whichever major is installed.

`python sdk.py FOLDER stdio` or `python sdk.py FOLDER http PORT`. What its tools do is written to FOLDER/log.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
from mcp.types import ToolAnnotations

MAJOR = version("mcp").split(".")[0]
if MAJOR == "1":
    from mcp.server.fastmcp import Context, FastMCP, Image
    from mcp.server.fastmcp.exceptions import ToolError

    server: Any = FastMCP("zoo", log_level="ERROR")

    def hints(read: bool | None = None, destructive: bool | None = None, idempotent: bool | None = None) -> Any:
        return ToolAnnotations(readOnlyHint=read, destructiveHint=destructive, idempotentHint=idempotent)
else:
    from mcp.server.mcpserver import Context, Image
    from mcp.server.mcpserver import MCPServer as FastMCP
    from mcp.server.mcpserver.exceptions import ToolError

    server = FastMCP("zoo", log_level="ERROR")

    def hints(read: bool | None = None, destructive: bool | None = None, idempotent: bool | None = None) -> Any:
        return ToolAnnotations(read_only_hint=read, destructive_hint=destructive, idempotent_hint=idempotent)


FOLDER = Path(sys.argv[1])


def log(line: str) -> None:
    with (FOLDER / "log").open("a") as file:
        file.write(line + "\n")


@server.tool(annotations=hints(read=True))
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=hints(read=True))
async def greet(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


@server.tool(annotations=hints(read=True))
async def lookup(word: str) -> dict[str, Any]:
    """A word and what it means."""
    return {"word": word, "meaning": None}


@server.tool(annotations=hints(read=True))
async def picture() -> Any:
    """A very small picture."""
    return ["here it is", Image(data=b"png", format="png")]


@server.tool(annotations=hints(idempotent=True))
async def put(value: str) -> str:
    """Set a value."""
    log(f"put {value}")
    return "ok"


@server.tool(annotations=hints(destructive=True))
async def erase(what: str) -> str:
    """Erase something for good."""
    log(f"erase {what}")
    return f"{what} is gone"


@server.tool()
async def note(text: str) -> str:
    """Write a line."""
    log(f"note {text}")
    return "noted"


@server.tool(annotations=hints(destructive=False))
async def fail(text: str) -> str:
    """Always fails."""
    raise ToolError(text)


@server.tool(annotations=hints(read=True))
async def slow_read(seconds: float) -> str:
    """Takes its time, and ends at once when it is cancelled."""
    log("slow_read began")
    try:
        await anyio.sleep(seconds)
    except BaseException:
        log("slow_read was cancelled")
        raise
    log("slow_read ended")
    return "read"


@server.tool()
async def slow_write(seconds: float) -> str:
    """As slow_read, with an effect."""
    log("slow_write began")
    try:
        await anyio.sleep(seconds)
    except BaseException:
        log("slow_write was cancelled")
        raise
    log("slow_write ended")
    return "written"


@server.tool()
def blocking_write(seconds: float) -> str:
    """Sync code, which no cancel stops."""
    log("blocking_write began")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        log("blocking_write tick")
    log("blocking_write ended")
    return "written"


@server.tool(annotations=hints(read=True))
async def count(upto: int, ctx: Context) -> str:
    """Reports how far it is."""
    for n in range(1, upto + 1):
        await ctx.report_progress(n, upto, f"at {n}")
        await asyncio.sleep(0.02)
    return "counted"


@server.tool()
async def die(code: int) -> str:
    """Ends its process in the middle of a call."""
    log("die began")
    os._exit(code)


def main() -> None:
    log(f"started {os.getpid()}")
    if sys.argv[2] == "stdio":
        server.run("stdio")
    elif MAJOR == "1":
        server.settings.port = int(sys.argv[3])
        server.run("streamable-http")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[3]))


main()
