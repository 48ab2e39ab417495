"""MCP, by its official SDK: our tools for any client, and the tools of any server for our loop.

Outside what the course teaches. It needs the package `mcp`, version 2.3 or later, which the course does not install.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


class Tool(Protocol):
    """What a loop calls; `call` raises a ValueError with one line for the model."""

    name: str
    description: str
    parameters: dict[str, Any]

    def call(self, arguments: dict[str, Any]) -> str:
        """Run the tool."""


async def serve(tools: Sequence[Tool], name: str = "tiny-llm") -> None:
    """Serve tools over the standard input and output, until the client closes them.

    A tool's error is an answer that the model reads. Who calls tools asks the user: a client before it sends a call, or
    the tools' own `approve`, which cannot use the standard input here.
    """
    by_name = {tool.name: tool for tool in tools}

    async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
        found = [types.Tool(name=t.name, description=t.description, input_schema=t.parameters) for t in tools]
        return types.ListToolsResult(tools=found)

    async def called(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            if params.name not in by_name:
                raise ValueError(f"there is no tool {params.name!r}")
            text = await anyio.to_thread.run_sync(by_name[params.name].call, dict(params.arguments or {}))
        except ValueError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server: Server[Any] = Server(name, on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


@dataclasses.dataclass(frozen=True)
class RemoteTool:
    """A tool of a server, for a loop that is not asynchronous."""

    name: str
    description: str
    parameters: dict[str, Any]
    portal: anyio.from_thread.BlockingPortal
    client: Client

    def call(self, arguments: dict[str, Any]) -> str:
        """Call the tool and return the text of its answer. Raises ValueError with the server's message."""
        result = self.portal.call(self.client.call_tool, self.name, arguments)
        text = "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))
        if result.is_error:
            raise ValueError(" ".join(text.split()) or f"{self.name} failed")
        return text


@contextlib.contextmanager
def remote_tools(command: Sequence[str]) -> Iterator[list[RemoteTool]]:
    """Start a server, and yield its tools; it ends with the block."""
    parameters = StdioServerParameters(command=command[0], args=[*command[1:]])
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(parameters)) as client,
    ):
        found = portal.call(client.list_tools).tools
        yield [RemoteTool(t.name, t.description or "", t.input_schema, portal, client) for t in found]
