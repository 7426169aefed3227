"""``tallybook mcp``: the official SDK's client drives the server in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
import pytest

from helpers.authors import HUMAN
from helpers.events import list_events
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.mcp import MAX_LINE_BYTES
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


COMMAND = ["-m", "tallybook", "mcp", "--session", "s1"]


@pytest.fixture
def playbook(project: Path) -> Project:
    """Return a project with three entries."""
    made = Project(project)
    for text in ("Quote ids as strings.", "Run the linters first.", "Name the units of numbers."):
        commands.add(made, text, HUMAN)
    return made


@pytest.fixture(params=["auto", "legacy"])
def ask(request: pytest.FixtureRequest, playbook: Project) -> Callable[[Callable[[Client], Awaitable[Any]]], Any]:
    """Return what lets the SDK's client ask a server of its own, once in each era of the protocol."""

    def run(asked: Callable[[Client], Awaitable[Any]]) -> Any:
        env = os.environ | {"CLAUDE_PROJECT_DIR": str(playbook.root)}
        server = StdioServerParameters(command=sys.executable, args=COMMAND, env=env)

        async def session() -> Any:
            async with Client(stdio_client(server), mode=request.param) as client:
                return await asked(client)

        return asyncio.run(session())

    return run


def parse(result: Any) -> Any:
    """Return what a tool answered."""
    assert not result.is_error, result.content
    return json.loads(result.content[0].text)


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


def test_a_client_lists_and_calls_every_tool(ask: Callable[..., Any], playbook: Project) -> None:
    """The playbook for a task begins with the entry that fits it; a rating and an entry are in the ledger."""

    async def asked(client: Client) -> list[Any]:
        names = [tool.name for tool in (await client.list_tools()).tools]
        return [
            names,
            parse(await client.call_tool("playbook", {"task": "which units do numbers have?"})),
            parse(await client.call_tool("rate", {"name": "kpt_003", "rating": "helpful", "reason": "it fitted"})),
            parse(await client.call_tool("add", {"text": "Close every file."})),
            parse(await client.call_tool("why", {"name": "kpt_003"})),
            parse(await client.call_tool("history", {"limit": 2})),
        ]

    names, fitting, rated, added, story, history = ask(asked)
    assert ["playbook", "why", "history", "rate", "add"] == names
    assert ("kpt_003", 0) == (fitting["entries"][0]["name"], fitting["left_out"])
    assert [] == rated["ignored"]
    assert ["kpt_004"] == added["added"]
    assert ("kept", 1) == (story["status"], story["helpful"])
    assert 2 == len(history["events"])
    (rating,) = [event for event in list_events(playbook) if event["kind"] == "point.rated"]
    assert {"rater": "agent", "session": "s1", "agent": "mcp"} == rating["by"]


def test_a_client_reads_every_resource_and_the_prompt(ask: Callable[..., Any]) -> None:
    """Playbook, scores and the story of an entry are JSON; the prompt holds the entries as quoted data."""

    async def asked(client: Client) -> list[Any]:
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        texts = []
        for uri in ("tallybook://playbook", "tallybook://scores", "tallybook://entry/kpt_001"):
            content: Any = (await client.read_resource(uri)).contents[0]
            texts.append(content.text)
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        message: Any = (await client.get_prompt("review")).messages[0].content
        return [listed, texts, prompts, message.text]

    listed, texts, prompts, review = ask(asked)
    assert ["tallybook://playbook", "tallybook://scores"] == listed
    playbook, scores, story = map(json.loads, texts)
    assert 3 == len(playbook["key_points"])
    assert isinstance(scores, dict)
    assert "kpt_001" == story["name"]
    assert ["review"] == prompts
    assert '"text": "Quote ids as strings."' in review


def test_a_list_of_tools_is_short_and_says_what_each_may_do(playbook: Project) -> None:
    """The list has under 4 KB, every argument a type and a description, and rate is marked as destructive."""
    (answer,) = talk(playbook, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert len(json.dumps(answer)) < 4096
    tools = {tool["name"]: tool for tool in answer["result"]["tools"]}
    for tool in tools.values():
        assert tool["inputSchema"]["properties"]
        assert all(
            argument["type"] and argument["description"] for argument in tool["inputSchema"]["properties"].values()
        )
    assert ["rate"] == [name for name, tool in tools.items() if tool["annotations"].get("destructiveHint")]
    assert ["rate", "add"] == [name for name, tool in tools.items() if not tool["annotations"]["readOnlyHint"]]


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


def test_a_message_that_is_too_long_or_too_deep_is_an_error_and_not_the_end(playbook: Project) -> None:
    """Each is answered with one error, and the next request as always."""
    long, deep = b" " * 10 + b"x" * MAX_LINE_BYTES, b"[" * 100_000
    answers = talk(playbook, long, deep, {"jsonrpc": "2.0", "id": 6, "method": "ping"})
    assert [-32600, -32700] == [answer["error"]["code"] for answer in answers[:2]]
    assert [{"jsonrpc": "2.0", "id": 6, "result": {}}] == answers[2:]
