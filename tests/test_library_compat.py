"""Programs and hook scripts written for the module that ``compat`` replaces run with their import changed alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
import copy
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
import pytest

from helpers.commands import ROOT
from helpers.events import HUMAN
from helpers.hook_calls import events
from helpers.reference_model import ReferenceModel, book, extraction, next_name, point
from helpers.sweep import slice_of
from helpers.transcripts import Script, ScriptedClient, answer, choose, find_transcripts
from tallybook import compat
from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.ledger.events import ReflectionCompleted
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

PROMPT = """\
import json
import sys

from common import format_playbook, is_diagnostic_mode, is_first_message, load_playbook, mark_session, save_diagnostic

event = json.load(sys.stdin)
answer = {}
if is_first_message(event["session_id"]):
    text = format_playbook(load_playbook())
    if text:
        if is_diagnostic_mode():
            save_diagnostic(text, "prompt")
        mark_session(event["session_id"])
        answer = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}
print(json.dumps(answer))
"""
COMPACTION = """\
import asyncio
import json
import sys

from common import (
    clear_session,
    extract_keypoints,
    load_playbook,
    load_transcript,
    save_playbook,
    update_playbook_data,
)


async def main(event):
    messages = load_transcript(event.get("transcript_path"))
    if messages:
        playbook = load_playbook()
        found = await extract_keypoints(messages, playbook, "compaction")
        save_playbook(update_playbook_data(playbook, found))
        clear_session()


asyncio.run(main(json.load(sys.stdin)))
"""
END = COMPACTION.replace("    clear_session,\n", "    clear_session,\n    load_settings,\n").replace(
    "    if messages:", '    if messages and load_settings()["playbook_update_on_exit"]:'
)
SCRIPTS = {"prompt": PROMPT, "compaction": COMPACTION, "end": END}


@pytest.fixture
def hook(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs one of the three scripts on a payload, and returns the printed JSON, or None."""

    def run(name: str, **payload: Any) -> Any:
        script = tmp_path / f"{name}.py"
        script.write_text(SCRIPTS[name].replace("from common import", "from tallybook.compat import"))
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        words, given = [sys.executable, str(script)], json.dumps(payload).encode()
        done = subprocess.run(words, input=given, capture_output=True, env=environment, check=False)
        assert (0, b"") == (done.returncode, done.stderr)
        return json.loads(done.stdout) if done.stdout else None

    return run


def read_injected(answered: dict[str, Any]) -> str:
    """Return the playbook's entries in the output of the prompt's script."""
    text: str = answered["hookSpecificOutput"]["additionalContext"]
    return "\n".join(line for line in text.splitlines() if line.startswith("["))


def test_hook_scripts_of_the_old_module_run(
    project: Path, client: ScriptedClient, hook: Callable[..., Any], write_playbook: Callable[[object], Path]
) -> None:
    """A session gets the playbook once and again after a compaction; its end is reflected on if settings say so."""
    write_playbook(book("Use type hints."))
    choose(rater="claude")
    script = Script(find_transcripts(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    session = {"session_id": "s1", "transcript_path": str(script.path)}
    first = "[kpt_001] helpful=0 harmful=0 :: Use type hints."
    assert first == read_injected(hook("prompt", **session))
    assert {} == hook("prompt", **session)
    assert first == read_injected(hook("prompt", session_id="s2"))
    client.plans(answer("Run the tests.", kpt_001="helpful"), answer(kpt_001="helpful", kpt_002="harmful"))
    assert None is hook("compaction", **session)
    assert "User: Fix it\nAgent: Done as [kpt_001] says." in client.asked[0]["prompt"]
    second = "[kpt_001] helpful=1 harmful=0 :: Use type hints.\n[kpt_002] helpful=0 harmful=0 :: Run the tests."
    assert second == read_injected(hook("prompt", **session))
    assert None is hook("end", **session)
    assert 1 == len(client.asked)
    settings = Path.home() / ".claude" / "settings.json"
    settings.write_text('{"playbook_update_on_exit": true}')
    assert None is hook("end", **session)
    ends = [point("kpt_001", "Use type hints.", 2), point("kpt_002", "Run the tests.", 0, 1)]
    assert ends == compat.load_playbook()["key_points"]
    assert not (project / ".claude" / "last_session.txt").exists()


def test_messages_are_loaded_unchanged(tmp_path: Path) -> None:
    """A text is whole; of a list the texts are joined by line breaks, and the rest is left out."""
    long, secret = "x" * 50_000, f"ghp_{'a1B2' * 9}"
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    script = Script(tmp_path / "s1.jsonl").user(long).agent("one", call, f"two {secret}").agent(call).user("")
    script.user("unseen", isMeta=True).user("<command-name>/clear</command-name>").line("system", "unseen")
    with script.path.open("a", encoding="utf-8") as file:
        file.write('not JSON\n[]\n{"type": []}\n{"type": "user", "message": 7}\n{"type": "user", "mess')
    expected = [{"role": "user", "content": long}, {"role": "assistant", "content": f"one\ntwo {secret}"}]
    assert expected == compat.load_transcript(script.path)


@pytest.mark.parametrize("damaged", [None, b"{", b"[]", b"\xff"], ids=repr)
def test_unreadable_settings_switch_the_updates_off(damaged: bytes | None) -> None:
    """Without a usable settings.json of the user both updates are off; else it is returned unchanged."""
    settings = Path.home() / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    if damaged is not None:
        settings.write_bytes(damaged)
    off = {"playbook_update_on_exit": False, "playbook_update_on_clear": False}
    compat.load_settings()["playbook_update_on_exit"] = True
    assert off == compat.load_settings()
    settings.write_text('{"model": "opus", "playbook_update_on_clear": true}')
    assert {"model": "opus", "playbook_update_on_clear": True} == compat.load_settings()


def test_the_function_of_the_specification_respects_the_daily_tokens(project: Path, client: ScriptedClient) -> None:
    """Its cost counts with the rest, a run beyond the limit does not begin, and no secret is sent."""
    choose(rater="claude", tokens_per_day=6_000)
    place = Project(project)
    commands.add(place, "Use type hints.", {"rater": "human"})
    client.plans(answer(kpt_001="helpful"))
    messages = [{"role": "user", "content": f"my token is ghp_{'a1B2' * 9}"}]
    asyncio.run(compat.extract_keypoints(messages, compat.load_playbook()))
    assert "ghp_" not in client.asked[0]["prompt"]
    assert [ReflectionCompleted("claude", 1200, 50)] == events(place, ReflectionCompleted)
    with pytest.raises(BadInputError, match="tokens_per_day: has too little left"):
        asyncio.run(compat.extract_keypoints([{"role": "user", "content": "x" * 4_000}], compat.load_playbook()))
    assert 1 == len(client.asked)


RATINGS = st.sampled_from(["helpful", "harmful", "harmful", "neutral"])
TEXTS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
UNKNOWN = [f"kpt_{number:03d}" for number in range(1, 10)]


def counted(entries: Iterable[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Return text and counts of entries, without the names and the order that the ledger chose."""
    return sorted((kp["text"], kp["helpful"], kp["harmful"]) for kp in entries)


class CompatWorld:
    """A ledger, its reference model, and the model's name of each entry."""

    def __init__(self, here: Project) -> None:
        """Begin with one entry."""
        self.here = here
        self.model = ReferenceModel({"key_points": []})
        self.names: dict[str, str] = {}
        self.puts = 0
        self.add("a")

    def standing(self) -> dict[str, str]:
        """Return name → text in the ledger."""
        return {kp["name"]: kp["text"] for kp in commands.show(self.here)["key_points"]}

    def in_model(self) -> dict[str, str]:
        """Return text → name in the model."""
        return {kp["text"]: kp["name"] for kp in self.model.playbook["key_points"]}

    def check(self) -> None:
        """Compare the ledger with the model."""
        assert counted(self.model.playbook["key_points"]) == counted(commands.show(self.here)["key_points"])
        for name, text in self.standing().items():
            self.names.setdefault(name, self.in_model()[text])

    def add(self, text: str) -> None:
        """Add an entry by another process, which is refused a text that an entry has."""
        if text in self.standing().values():
            with pytest.raises(NothingToDoError):
                commands.add(self.here, text, HUMAN)
        else:
            commands.add(self.here, text, HUMAN)
        self.model.update(extraction(new=[text]))
        self.check()

    def rate(self, index: int, rating: str) -> None:
        """Rate an entry by another process."""
        if names := list(self.standing()):
            name = names[index % len(names)]
            commands.rate(self.here, name, rating, HUMAN)
            self.model.update(extraction((self.names[name], rating)))
            self.check()


class Program:
    """One program's dict, with the updates that it has not saved yet."""

    def __init__(self, world: CompatWorld) -> None:
        """Load the playbook."""
        self.world = world
        self.playbook = compat.load_playbook()
        self.updates: list[tuple[list[str], set[str], list[tuple[str, bool, str]]]] = []
        self.put_texts: list[str] = []
        self.loaded = self.texts()

    def texts(self) -> dict[str, str]:
        """Return name → text in the dict."""
        return {kp["name"]: kp["text"] for kp in self.playbook["key_points"]}

    def update(self, new: list[str], ratings: list[tuple[int, str]]) -> None:
        """Apply an extraction result that rates entries of the dict, and names that it does not have."""
        fresh = {text for text in new if text not in self.texts().values()}
        added = copy.deepcopy(self.playbook)
        compat.update_playbook_data(added, extraction(new=new))
        texts = {kp["name"]: kp["text"] for kp in added["key_points"]}
        names = [*texts, *UNKNOWN]
        rated = [(names[index % len(names)], rating) for index, rating in ratings]
        compat.update_playbook_data(self.playbook, extraction(*rated, new=new))
        meant = [
            (name, True, rating) if self.loaded.get(name) == texts[name] else (texts[name], False, rating)
            for name, rating in rated
            if name in texts
        ]
        self.updates.append((new, fresh, meant))

    def put(self) -> None:
        """Append an entry to the dict itself."""
        self.world.puts += 1
        self.put_texts.append(f"put {self.world.puts}")
        self.playbook["key_points"].append(point(compat.generate_keypoint_name(self.texts()), self.put_texts[-1]))

    def save(self) -> None:
        """Save twice, the second time without changes, and apply the updates to the model one after the other."""
        compat.save_playbook(self.playbook)
        compat.save_playbook(self.playbook)
        model = self.world.model
        own: dict[str, str] = {}
        for new, fresh, meant in self.updates:
            model.update(extraction(new=new))
            # A rating means the entry that the dict had: one that was pruned meanwhile stays so, its text added again.
            own |= {text: name for text, name in self.world.in_model().items() if text in fresh}
            names = [
                (self.world.names.get(name, "") if loaded else own.get(name, ""), rating)
                for name, loaded, rating in meant
            ]
            model.update(extraction(*names))
        for kp in self.playbook["key_points"]:
            if kp["text"] in self.put_texts:
                name = next_name(model.high_water)
                model.playbook["key_points"].append(point(name, kp["text"], kp["helpful"], kp["harmful"]))
                model.high_water += 1
        self.updates, self.put_texts, self.loaded = [], [], self.texts()
        self.world.check()
        standing = self.world.standing()
        assert len(self.playbook["key_points"]) == len(self.loaded)
        assert {name: standing.get(name, text) for name, text in self.texts().items()} == self.texts()


UPDATES = st.tuples(
    st.just("update"),
    st.lists(TEXTS, max_size=3, unique=True),
    st.lists(st.tuples(st.integers(0, 15), RATINGS), max_size=5),
)
STEPS = st.one_of(
    UPDATES,
    UPDATES,
    st.tuples(st.just("save")),
    st.tuples(st.just("put")),
    st.tuples(st.just("reload")),
    st.tuples(st.just("add"), TEXTS),
    st.tuples(st.just("rate"), st.integers(0, 5), RATINGS),
)

# The second dict's "c" was kpt_002 until its save; that name is the first dict's "put 1" in the ledger.
STALE_NAME = [
    (0, ("put",)),
    (1, ("update", ["c"], [])),
    (0, ("save",)),
    (1, ("save",)),
    (1, ("update", [], [(3, "helpful")])),
]

# The first dict no longer has "a", so its "put 1" is kpt_001 there as well.
PRUNED_NAME = [
    (0, ("update", [], [(0, "harmful"), (0, "harmful"), (0, "harmful")])),
    (0, ("put",)),
    (0, ("update", [], [(0, "helpful")])),
    (1, ("update", [], [(0, "helpful")])),
]

# Here "a" stays in the ledger.
PRUNED_HERE_ALONE = [*[(1, ("rate", 0, "helpful"))] * 3, *PRUNED_NAME]

# The second dict's "f" is pruned with its first update, by ratings of the first dict; its second one adds it again.
ADDED_AGAIN = [
    (0, ("update", ["f"], [(1, "harmful"), (1, "harmful")])),
    (0, ("save",)),
    (1, ("update", ["f"], [(1, "harmful")])),
    (1, ("update", ["f"], [(1, "helpful")])),
]


@example(ADDED_AGAIN)
@example(PRUNED_HERE_ALONE)
@example(PRUNED_NAME)
@example(STALE_NAME)
@settings(
    max_examples=slice_of(60, 10), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.tuples(st.integers(0, 1), STEPS), max_size=14))
def test_updates_saved_together_equal_the_reference_model(
    new_project: Callable[[], Path], steps: list[tuple[int, Any]]
) -> None:
    """Two dicts with any number of updates a save, and other writers in between, equal the model."""
    world = CompatWorld(Project(new_project()))
    programs = [Program(world), Program(world)]
    for who, (step, *arguments) in steps:
        if step == "reload":
            programs[who] = Program(world)
        else:
            getattr(world if step in {"add", "rate"} else programs[who], step)(*arguments)
    for program in programs:
        program.save()
    assert commands.verify_and_fold(world.here)[0].ok
