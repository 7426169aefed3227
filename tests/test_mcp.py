"""``tallybook mcp``: the official SDK's client drives the server in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
import pytest

from helpers.events import HUMAN, list_events
from tallybook.projections.surfaces.cli.mcp import MAX_LINE_BYTES, TOOLS
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

COMMAND = ["-m", "tallybook", "mcp", "--session", "s1"]


@pytest.fixture
def playbook(project: Path) -> Project:
    """Return a project with three entries."""
    made = Project(project)
    for text in ("Quote ids as strings.", "Run the linters first.", "Name the units of numbers."):
        commands.add(made, text, HUMAN)
    return made


def talk(project: Project, *messages: object) -> list[dict[str, Any]]:
    """Send lines to a server and return its answers, each parsed."""
    lines = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
    done = subprocess.run(
        [sys.executable, *COMMAND],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        check=True,
        env=os.environ | {"CLAUDE_PROJECT_DIR": str(project.root)},
    )
    assert b"" == done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(tool: str, **arguments: object) -> dict[str, Any]:
    """Return the request that calls a tool."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_the_client_of_the_official_sdk_is_answered(playbook: Project, era: str) -> None:
    """In each era of the protocol it lists and calls every tool, and reads every resource."""
    env = os.environ | {"CLAUDE_PROJECT_DIR": str(playbook.root)}
    server = StdioServerParameters(command=sys.executable, args=COMMAND, env=env)
    calls: dict[str, dict[str, Any]] = {
        "playbook": {"task": "which units do numbers have?"},
        "why": {"name": "kpt_003"},
        "history": {"limit": 2},
        "rate": {"name": "kpt_003", "rating": "helpful", "reason": "it fitted"},
        "add": {"text": "Close every file."},
    }

    async def ask() -> tuple[list[Any], list[Any]]:
        async with Client(stdio_client(server), mode=era) as client:
            assert [*calls] == [tool.name for tool in (await client.list_tools()).tools]
            called: list[Any] = [await client.call_tool(name, arguments) for name, arguments in calls.items()]
            uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
            uris.append("tallybook://entry/kpt_001")
            contents: list[Any] = [(await client.read_resource(uri)).contents[0] for uri in uris]
            return called, contents

    called, contents = asyncio.run(ask())
    assert [False] * len(calls) == [answer.is_error for answer in called]
    assert "kpt_003" == json.loads(called[0].content[0].text)["entries"][0]["name"]
    assert 3 == len([json.loads(content.text) for content in contents])
    (rating,) = [event for event in list_events(playbook) if event["kind"] == "point.rated"]
    assert {"rater": "agent", "session": "s1", "agent": "mcp"} == rating["by"]


def test_a_list_of_tools_is_short() -> None:
    """Models pay for it in every session."""
    assert len(json.dumps([tool.describe(name) for name, tool in TOOLS.items()])) < 4096


NAMES = ["half \ud800 of a pair" + "x" * 100_000, "line\nbreak \u2028\t\x00"]


@pytest.mark.parametrize("name", NAMES, ids=["half a surrogate pair", "controls"])
def test_no_name_of_a_client_keeps_a_model_from_rating(playbook: Project, name: str) -> None:
    """What the ledger cannot hold of a client's name is replaced, in both eras of the protocol."""
    info = {"name": name, "version": "1"}
    modern = {"_meta": {"io.modelcontextprotocol/clientInfo": info}}
    rating = call("rate", name="kpt_001", rating="helpful")
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": info}}
    other = call("rate", name="kpt_002", rating="helpful")
    answers = talk(playbook, greeting, rating, other | {"params": other["params"] | modern})
    assert [False, False] == [answer["result"]["isError"] for answer in answers[1:]]
    agents = [row["by"].get("agent", "") for row in list_events(playbook) if row["kind"] == "point.rated"]
    assert [name.replace("\ud800", "?")[:200]] * 2 == agents
    assert commands.verify_and_fold(playbook)[0].ok


def test_half_a_surrogate_pair_in_a_call_is_answered_in_words(playbook: Project) -> None:
    """As a value, and as the name of an argument; the model can correct its call."""
    calls = [call("rate", name="kpt_001", rating="\ud800"), call("why", **{"\ud800": "x"})]
    assert [True, True] == [answer["result"]["isError"] for answer in talk(playbook, *calls)]


def test_a_message_that_is_too_long_or_too_deep_is_an_error_and_not_the_end(playbook: Project) -> None:
    """Each is answered with one error, and the next request as always."""
    long, deep = b" " * 10 + b"x" * MAX_LINE_BYTES, b"[" * 100_000
    infinite = b'{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}'
    answers = talk(playbook, long, deep, infinite, {"jsonrpc": "2.0", "id": 6.0, "method": "ping"})
    assert [(None, -32600), (None, -32700), (None, -32600)] == [
        (row["id"], row["error"]["code"]) for row in answers[:3]
    ]
    assert [{"jsonrpc": "2.0", "id": 6, "result": {}}] == answers[3:]
