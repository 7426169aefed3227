"""What is checked of a client: one session that begins, is continued, is compacted where it can be, and goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
import json
import time

import attrs

from agents import projects
from agents.clients import Installed, InstalledClient
from agents.projects import ASKED, CITED, ENTRIES, LINE, ClientFolders
from helpers.stub_models import ModelReply, ModelRequest, StubModel, stub_model
from tallybook.ledger.events import PlaybookInjected, PointCited, PointRated, ReflectionCompleted, ReflectionRequested

MARKED = "As [kpt_001] says, done.\n\n[kpt_001 helpful]"
PRINTED = ("as [kpt_002] says", "'[kpt_002 harmful: printed]'")
"""What a client's tool prints usually, and a mark in its place."""
UNATTENDED = ("claude", "codex")
"""The clients that say that no person watches a session."""
REFLECTED_S = 60
"""Seconds that the reflections may take."""


@attrs.define
class ClientSession:
    """A client at work.

    Attributes:
        installed: The client.
        place: Where it runs.
        model: The model that it asks.
        environment: What the client needs to ask that model.
        replies: What the model answers next; then it cites an entry.
    """

    installed: Installed
    place: ClientFolders
    model: StubModel
    environment: dict[str, str]
    replies: list[ModelReply]

    def ask(self, prompt: str, *, goes_on: bool = True, reply: ModelReply | None = None) -> list[ModelRequest]:
        """Let the client ask the model, and return the requests that offer tools: those of the session itself."""
        return self.run(self.installed.client.ask(prompt, goes_on=goes_on), reply)

    def run(self, options: Sequence[str], reply: ModelReply | None = None) -> list[ModelRequest]:
        """Run the client with options, and return the same."""
        self.replies[:] = [reply] if reply else []
        count = len(self.model.requests)
        self.place.ask(self.installed, self.environment, options)
        return [request for request in self.model.requests[count:] if request.tools]


@contextmanager
def session(installed: Installed, place: ClientFolders) -> Iterator[ClientSession]:
    """Run a model that cites an entry in each message, and set the client up to ask it."""
    replies: list[ModelReply] = []

    def reply(request: ModelRequest) -> ModelReply:
        if not request.tools:
            return ModelReply("A summary.")
        return replies.pop(0) if replies else ModelReply(CITED)

    with stub_model(reply) as model:
        environment = installed.client.set_up(place.home, place.project, model.address)
        yield ClientSession(installed, place, model, environment, replies)


CHECKS = (
    *("once", "again", "asked", "cited", "awaiting", "reflected", "true", "quiet", "restored"),
    *("by task", "subagent", "marks", "unasked"),
)
"""Names of the checks, in the order of the table."""


def check(installed: Installed) -> dict[str, bool | None]:
    """Run a client, and return each check's verdict; None where the client cannot be asked for it."""
    client = installed.client
    with projects.new_place() as place, session(installed, place) as at_work:
        _write_own_settings(place, client)
        before = place.tree()
        place.tallybook("init", client.agent)
        first, last = _hold_session(at_work), []
        if client.compact:
            at_work.run(client.compact)
            last = at_work.ask("and now")
        _reflect(place)
        place.tallybook("uninstall", client.agent)
        verdicts = _verdicts(place, first, last) | {"restored": before == place.tree()}
    verdicts["by task"] = _check_by_task(installed)
    verdicts["subagent"] = _check_subagent(installed) if client.subagent else None
    return verdicts | _check_marks(installed)


def _set_to(place: ClientFolders, text: str) -> None:
    """Write the project's settings."""
    path = place.project / ".claude" / "config" / "tallybook.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _check_by_task(installed: Installed) -> bool:
    """Return whether each prompt adds the entry that fits it, and every later request holds each entry once."""
    with projects.new_place() as place, session(installed, place) as at_work:
        place.tallybook("init", installed.client.agent)
        _set_to(place, "[playbook]\nby_task = true\n")
        single = at_work.ask("which type hints are missing?", goes_on=False)
        both = [*at_work.ask("add the tests"), *at_work.ask("type hints for the tests")]
        lines = [f":: {entry}" for entry in ENTRIES]
        held = [{tuple(map(request.text.count, lines)) for request in requests} for requests in (single, both)]
        injected = [r.event.names for r in place.records() if isinstance(r.event, PlaybookInjected)]
        return held == [{(1, 0)}, {(1, 1)}] and injected == [("kpt_001",), ("kpt_002",)]


def _check_subagent(installed: Installed) -> bool:
    """Return whether a session and its subagent are each given the playbook once, if a setting says so."""
    client = installed.client
    with projects.new_place() as place, session(installed, place) as at_work:
        place.tallybook("init", client.agent)
        _set_to(place, "[playbook]\nsubagents = true\n")
        requests = at_work.ask("hello", goes_on=False, reply=ModelReply("I ask another.", client.subagent))
        injected = [r.by.agent for r in place.records() if isinstance(r.event, PlaybookInjected)]
        once = {1} == {request.text.count(LINE) for request in requests}
        return once and [True, False] == [agent is None for agent in injected]


def _check_marks(installed: Installed) -> dict[str, bool | None]:
    """Return whether a lineage votes once, in its own words alone, and whether it is not asked for marks unattended."""
    client = installed.client
    with projects.new_place() as place, session(installed, place) as at_work:
        place.tallybook("init", client.agent)
        _set_to(place, '[reflection]\nrater = "none"\n')
        requests = at_work.ask("hello", goes_on=False, reply=ModelReply(MARKED))
        _reflect(place)
        name, given = client.tool
        printing = {field: value.replace(*PRINTED) for field, value in given.items()}
        at_work.ask("print a mark", reply=ModelReply("I print it.", (name, printing)))
        if client.subagent:
            at_work.ask("and again", reply=ModelReply("I ask another.", client.subagent))
        if client.compact:
            at_work.run(client.compact)
        at_work.ask("and again", reply=ModelReply(MARKED))
        if client.fork:
            at_work.run(client.fork, ModelReply(MARKED))
        _reflect(place)
        votes = [(r.by.rater, r.by.agent, r.event) for r in place.records() if isinstance(r.event, PointRated)]
        is_asked = any("[NAME helpful]" in request.text for request in requests)
    once = [("agent", client.agent, PointRated("kpt_001", "helpful"))] == votes
    return {"marks": once, "unasked": not is_asked if client.agent in UNATTENDED else None}


def _write_own_settings(place: ClientFolders, client: InstalledClient) -> None:
    """Write the settings that a user has already, in a layout of the user's."""
    if client.own_settings:
        path = place.project / client.settings
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(client.own_settings, encoding="utf-8")


def _reflect(place: ClientFolders) -> None:
    """Reflect on the session; a worker that a hook started may do so first, and then this waits for it."""
    end = time.monotonic() + REFLECTED_S
    while time.monotonic() < end:
        with suppress(RuntimeError):
            place.tallybook("reflect")
            return
        time.sleep(0.5)


TOGETHER = ("once", "cited", "true", "quiet", "verified")
"""Names of the checks of two clients in one project."""


def check_together(pair: Sequence[Installed]) -> dict[str, bool | None]:
    """Run clients in one project at the same time, and return each check's verdict."""
    with projects.new_place() as place, ExitStack() as stack, ThreadPoolExecutor() as pool:
        at_work = [stack.enter_context(session(installed, place)) for installed in pair]
        for installed in pair:
            place.tallybook("init", installed.client.agent)
        requests = list(pool.map(_hold_session, at_work))
        place.tallybook("verify")
        cited = {record.by.session for record in place.records() if isinstance(record.event, PointCited)}
        return {
            **_verdicts(place, [request for group in requests for request in group], [], sessions=len(pair)),
            "cited": len(pair) == len(cited),
            "verified": True,
        }


def _hold_session(at_work: ClientSession) -> list[ModelRequest]:
    """Let a client ask three times in one session."""
    first = at_work.ask("hello", goes_on=False, reply=ModelReply("I run it.", at_work.installed.client.tool))
    return [*first, *at_work.ask("go on"), *at_work.ask("and on")]


def _verdicts(
    place: ClientFolders, first: list[ModelRequest], last: list[ModelRequest], sessions: int = 1
) -> dict[str, bool | None]:
    calls, records = place.calls(), place.records()
    payloads = [json.loads(call.payload) for call in calls]
    ids = {payload.get("session_id") or payload.get("sessionId") for payload in payloads}
    ours = [record for record in records if record.by.session in ids]
    events = {kind: [r for r in ours if isinstance(r.event, kind)] for kind in _KINDS}
    answers = [call for call in calls if call.answer]
    expected = sessions * (2 if last else 1)
    return {
        "once": bool(first) and {1} == {request.text.count(LINE) for request in first},
        "again": {1} == {request.text.count(LINE) for request in last} if last else None,
        "asked": all(0 < request.text.find(ASKED) for request in [*first, *last]),
        "cited": {"kpt_001", "kpt_002"} == {r.event.name for r in ours if isinstance(r.event, PointCited)},
        "awaiting": bool(events[ReflectionRequested]),
        "reflected": bool(events[ReflectionCompleted]) and bool(events[PointRated]),
        "true": expected == len(answers) == len(events[PlaybookInjected]),
        "quiet": {(0, "")} == {(call.code, call.errors) for call in calls},
    }


_KINDS = (PlaybookInjected, PointRated, ReflectionCompleted, ReflectionRequested)
