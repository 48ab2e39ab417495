"""`pdm run mcp`: serve the tools of a workspace to an MCP client."""

import threading
from pathlib import Path

import click

from .options import FOLDER


@click.command()
@click.option("--workspace", type=FOLDER, default=".", help="The folder for the tools (default: the current one).")
@click.option("--yes", is_flag=True, help="Also serve the tools that change files and run commands.")
@click.option("--solution", is_flag=True, help="Serve our tools instead of yours.")
def mcp(workspace: Path, yes: bool, solution: bool) -> int:
    """Serve the tools of a folder over MCP, on standard input and output, for a client that starts this command.

    The server does not ask for approval: with --yes, use a client that asks you before each call. To undo the changes
    of a session, use pdm run agent --undo.
    """
    from ..engine import mcp_tools, workspaces
    from ..engine.package import Package

    workspaces.must_be_finished("pdm run mcp", solution)
    package = Package(solution, (*workspaces.TASKS, "7.3.1"))
    with package.learners_code(), workspaces.opened(package, workspace, lambda action, details: True) as (tools, _):
        read_only = package.part("workspace.tools", "READ_ONLY")
        offered = [tool for tool in tools if yes or tool.name in read_only]
        call_tool, tool_call = package.part("agent.calls", "call_tool"), package.part("tools.tool", "ToolCall")

        one_at_a_time = threading.Lock()  # requests come concurrently, and the journal has one end

        def call(name: str, arguments: str) -> str:
            with one_at_a_time:
                return str(call_tool(tool_call(name, arguments), offered))

        mcp_tools.serve(offered, call, read_only)
    return 0
