"""MCP servers as toolboxes: their tools are standfast tools, with an effect, a key and a truthful end (R36).

    async with mcp.stdio("uvx", "mcp-server-git", effects={"git_commit": "write"}) as git:
        agent = LLMAgent("committer", model=m, tools=[*git.tools])

Works with the MCP Python SDK of major 1 (from 1.27) and 2, over stdio and streamable HTTP.
"""

from importlib.util import find_spec

if find_spec("mcp") is None:
    raise ModuleNotFoundError('the MCP SDK is not installed: pip install "standfast[mcp]"', name="mcp")

from standfast.adapters.mcp.asking import ToolError
from standfast.adapters.mcp.server import MCPServer, http, stdio

__all__ = ["MCPServer", "ToolError", "http", "stdio"]
