"""The verb `hook`: what an agent calls, here for its help; ``entry`` runs a hook without Click."""

from __future__ import annotations

import click


@click.command(epilog='Example: echo \'{"hook_event_name": "SessionStart", "session_id": "s1"}\' | tallybook hook')
@click.argument("agent", default="claude")
def hook(agent: str) -> int:
    """Handle one hook payload of an agent.

    The payload comes on standard input, and the exit code is always 0. A hook injects the playbook into a session
    once, records which entries the agent cites, and requests a reflection when a session ends.
    """
    from tallybook.projections.surfaces.hooks import handler

    return handler.run([agent])
