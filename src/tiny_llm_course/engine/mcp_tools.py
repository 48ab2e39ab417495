"""MCP, by its official SDK: our tools for any client, and the tools of any server for our loop.

Outside what the course teaches. It needs the package `mcp`, version 2.3 or later, which only maintainers install.
"""

import dataclasses
import functools
import json
import logging
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from ..course.registry import UsageError

try:
    import anyio
    import anyio.from_thread
    import anyio.to_thread
    import mcp_types as types
    from mcp import Client, StdioServerParameters
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError:
    raise UsageError('MCP needs a package that is not installed: pdm run pip install "mcp>=2.3"') from None

PATIENCE = 30.0  # seconds for a server to start and to list its tools
CALL_PATIENCE = 600.0  # seconds for a call, which may run a command


class Tool(Protocol):
    """What a server offers."""

    name: str
    description: str
    parameters: dict[str, Any]


def serve(tools: Sequence[Tool], call: Callable[[str, str], str], read_only: Sequence[str]) -> None:
    """Serve tools over the standard input and output, until the client closes them.

    `call` runs a tool with arguments in JSON, as the loop does: what is wrong is an answer that begins with "Error: ".
    Who calls tools asks the user: a client before it sends a call, for which `read_only` names the harmless ones.
    """

    async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
        found = [
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.parameters,
                annotations=types.ToolAnnotations(read_only_hint=tool.name in read_only),
            )
            for tool in tools
        ]
        return types.ListToolsResult(tools=found)

    async def called(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = await anyio.to_thread.run_sync(call, params.name, json.dumps(params.arguments or {}))
        part = types.TextContent(type="text", text=text)
        return types.CallToolResult(content=[part], is_error=text.startswith("Error: "))

    async def main() -> None:
        server: Server[Any] = Server("tiny-llm", on_list_tools=listed, on_call_tool=called)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(main)


@dataclasses.dataclass(frozen=True)
class RemoteTool:
    """A tool of a server, for a loop that is not asynchronous. The user approves each call: it may do anything."""

    name: str  # ours: one that no other tool has, in the letters that OpenAI's API allows
    description: str
    parameters: dict[str, Any]
    remote: str  # the server's name for it
    request: Callable[[str, dict[str, Any]], types.CallToolResult]
    approve: Callable[[str, str], bool]
    dry_run: bool

    def call(self, arguments: dict[str, Any]) -> str:
        """Call the tool and return the text of its answer. Raises ValueError with the server's message, or a refusal.

        In a dry run, nothing is sent.
        """
        words = json.dumps(arguments)
        if self.dry_run:
            return f"dry run: would call {self.name} {words}"
        if not self.approve(f"call {self.name}", words):
            raise ValueError(f"call {self.name}: the user refused")
        result = self.request(self.remote, arguments)
        text = "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))
        if result.is_error:
            raise ValueError(" ".join(text.split()).removeprefix("Error: ") or f"{self.name} failed")
        return text


@contextmanager
def remote_tools(
    command: str, taken: Sequence[str], approve: Callable[[str, str], bool], *, dry_run: bool = False
) -> Iterator[list[RemoteTool]]:
    """Start a server, and yield its tools; it ends with the block.

    A name that is `taken` gets a number. Raise UsageError if the server cannot be started, or does not speak MCP.
    """
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it prints a traceback for each line that is not MCP's
    with ExitStack() as stack:
        try:
            if not (words := shlex.split(command)):
                raise ValueError("the command is empty")
            portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
            client = Client(StdioServerParameters(command=words[0], args=words[1:]), read_timeout_seconds=PATIENCE)
            stack.enter_context(portal.wrap_async_context_manager(client))
            found = portal.call(client.list_tools).tools
        except Exception as error:
            raise UsageError(f"The MCP server {command!r} cannot be used: {_first(error)}.") from error

        def request(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
            try:
                call = functools.partial(client.call_tool, name, arguments, read_timeout_seconds=CALL_PATIENCE)
                return portal.call(call)
            except Exception as error:
                raise ValueError(f"The MCP server {command!r} failed: {_first(error)}") from error

        tools: list[RemoteTool] = []
        for tool in found:
            name = _free(tool.name, [*taken, *(each.name for each in tools)])
            tools.append(
                RemoteTool(name, tool.description or "", tool.input_schema, tool.name, request, approve, dry_run)
            )
        yield tools


def _free(name: str, taken: Sequence[str]) -> str:
    """Return a name like this one that OpenAI's API allows and that is not taken."""
    name, number = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:60], 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _first(error: BaseException) -> str:
    """Return the first line of an error, in a group that of its first one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (what.splitlines() or [type(error).__name__])[0].removesuffix(".")
