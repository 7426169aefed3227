"""The verb that serves the Model Context Protocol: mcp."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tallybook.ledger.clock import new_id, utc_now
from tallybook.projections.surfaces.agents.inside import find_agent
from tallybook.projections.surfaces.console.options import provenance_of
from tallybook.projections.surfaces.mcp import protocol
from tallybook.projections.surfaces.mcp.server import Server
from tallybook.projections.surfaces.workspace import settings

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project


@click.command(epilog="Example: claude mcp add tallybook -- tallybook mcp")
@click.option("--session", metavar="ID", help="Record this session; by default the agent's or a new one.")
@click.pass_obj
def mcp(project: Project, /, *, session: str | None) -> None:
    """Serve the playbook to a model over MCP.

    A client of the Model Context Protocol starts it and talks to it over standard input and output. What the model
    rates and adds has the rater agent; `tallybook undo --of SESSION` takes it back. The setting write = false in the
    section [mcp] lets the model only read.
    """
    provenance_of({"session": session})
    writes = settings.read(project).write
    agent = find_agent()
    # What it gives out is the agent's to cite, where its client says which session starts it.
    session = session or (agent.session if agent else "") or f"mcp-{new_id(utc_now().unix_us)}"
    server = Server(project, session, writes=writes)
    protocol.serve(sys.stdin.buffer, sys.stdout.buffer, server)
