"""Joining a book with a history of one's own: what lands, what is joined to what others have, and what counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
import json
from pathlib import Path
from typing import Any

import pytest

from helpers import command_line
from helpers.memory_store import MemoryStore
from helpers.sharing_projects import Team, make_team
from tallybook.ledger.line import START
from tallybook.ledger.sharing import git_remote
from tallybook.ledger.sharing.book import cut_runs
from tallybook.ledger.sharing.engine import NOTHING, Engine, UnreachableError
from tallybook.projections.surfaces.sharing import syncing


@pytest.fixture
def team(tmp_path: Path, run: command_line.Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return a team on an engine in memory."""
    return make_team("memory", tmp_path, run, monkeypatch)


def by_text(team: Team, machine: str) -> dict[str, tuple[int, int]]:
    """Return the counts of each text that a machine shows."""
    return {text: (helpful, harmful) for text, helpful, harmful in team.entries(machine).values()}


def test_a_dry_run_shows_what_joining_brings(team: Team) -> None:
    """`share --dry-run` counts the entries of the book and the own ones, and changes nothing; then they join."""
    words = ("share", "memory", "memory", "--book", "main", "--dry-run", "--json")
    for text in ("Run the tests first", "Use type hints"):
        team.run("anna", "add", text)
    made = json.loads(team.run("anna", *words).out)
    assert ("", 0, 2, {"playbook.updated": 2, "point.added": 2}, 0) == (
        *(made[key] for key in ("book", "events", "own_entries", "outgoing")),
        len(team.ids()),
    )
    # What a session did and was undone before the ledger was shared stays undone.
    team.run("anna", "rate", "kpt_001", "harmful", "--session", "s1")
    team.run("anna", "undo", "--session", "s1")
    team.share("anna")
    before = team.ids()
    for text in ("Use type hints", "Write short commits"):
        team.run("ben", "add", text)
    shown = json.loads(team.run("ben", *words).out)
    assert (True, 2, 2, before) == (bool(shown["book"]), shown["entries"], shown["own_entries"], team.ids())
    team.share("ben")
    team.sync("anna")
    assert team.entries("anna") == team.entries("ben")
    texts = ("Run the tests first", "Use type hints", "Write short commits")
    assert dict.fromkeys(texts, (0, 0)) == by_text(team, "ben")


def test_only_the_excess_of_another_playbook_file_counts(team: Team) -> None:
    """Of a ledger begun with another's file the counts that stand do not count again, and what is only there does."""
    team.run("anna", "add", "Use git")
    team.run("anna", "add", "Use type hints")
    for rating in ("helpful", "helpful", "harmful"):
        team.run("anna", "rate", "kpt_001", rating)
    team.share("anna")
    file = json.loads((team.root("anna") / ".claude/playbook.json").read_bytes())
    team.run("anna", "rate", "kpt_001", "harmful")
    team.sync("anna")
    # What ben's file says more than the book: two ratings, and an entry.
    file["key_points"][1]["helpful"] = 2
    file["key_points"].append({"name": "kpt_003", "text": "Only in the file", "helpful": 1, "harmful": 0})
    (team.root("ben") / ".claude/playbook.json").write_text(json.dumps(file))
    team.run("ben", "rate", "kpt_001", "helpful")
    expected = {"Use git": (3, 1), "Use type hints": (2, 0), "Only in the file": (1, 0)}
    assert expected == by_text(team, "ben")
    team.share("ben")
    team.sync("anna")
    for machine in ("anna", "ben"):
        assert expected | {"Use git": (3, 2)} == by_text(team, machine)
    team.run("ben", "sync")
    assert len(team.ids()) == len(set(team.ids()))


def test_a_join_says_which_entries_have_another_name(team: Team) -> None:
    """The answer of the join, and a comparison of before with after, follow each entry to its name in the book."""
    team.run("anna", "add", "Alpha")
    team.share("anna")
    for text in ("Beta", "Alpha"):
        team.run("ben", "add", text)
    out = team.share("ben").out
    assert "~ kpt_001 is kpt_002 in the book\n~ kpt_002 is kpt_001 in the book\n" in out
    change = json.loads(team.run("ben", "diff", "5", "--json").out)
    assert [] == change["changed"]
    assert "- kpt_003  joined to kpt_001, which has its text" in team.run("ben", "diff", "5").out


def test_a_preview_shows_what_a_playbook_without_a_ledger_publishes(team: Team) -> None:
    """A project with a playbook and no ledger publishes the entries of its file, and the preview says so."""
    file = {"version": "1.0", "key_points": [{"name": "kpt_001", "text": "Use git", "helpful": 1, "harmful": 0}]}
    folder = team.root("ben") / ".claude"
    folder.mkdir(exist_ok=True)
    (folder / "playbook.json").write_text(json.dumps(file))
    shown = json.loads(team.share("ben", "--dry-run", "--json").out)
    assert ({"playbook.adopted": 1, "point.seeded": 1}, 1) == (shown["outgoing"], shown["own_entries"])
    assert not (folder / "ledger").exists()
    team.share("ben")
    assert ["Use git"] == [text for text, _, _ in team.entries("ben").values()]


class LeavingStore(MemoryStore):
    """A store that notes which runs are asked for, and cannot be reached at the third time."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.asked: list[list[int]] = []

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return runs, but for the third time."""
        self.asked.append([*numbers])
        if len(self.asked) == 3:
            raise UnreachableError(self.address, "it is away")
        return super().get(numbers)


def test_a_join_that_is_cut_off_goes_on_where_it_was(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A book comes in piece by piece; the next sync asks for what follows the pieces that are on disk already."""
    for text in ("Run the tests first", "Use type hints"):
        team.run("anna", "add", text)
    team.share("anna")
    batches = team.batches()
    store = team.memory = LeavingStore()
    assert Engine(store).append(NOTHING, cut_runs(batches, START, 1)) is not None
    monkeypatch.setattr(syncing, "PIECE_BYTES", 1)
    team.share("ben", code=4)
    team.sync("ben")
    # The first is of the preview, the second of the piece that came in.
    assert [1, 1, 2, 2] == [numbers[0] for numbers in store.asked[:4]]
    replicas = [(team.ledger(machine) / "book" / "1" / "events.jsonl").read_bytes() for machine in ("anna", "ben")]
    assert replicas[0] == replicas[1][: len(replicas[0])]
    team.sync("anna")
    assert team.entries("anna") == team.entries("ben")


def test_a_writer_is_named_by_its_user(tmp_path: Path, run: command_line.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The label is the names of user and machine; `log` and `undo` take the former alone, but no part of a name."""
    team = make_team("memory", tmp_path, run, monkeypatch)
    team.run("anna", "add", "Write tests")
    monkeypatch.setenv("LOGNAME", "anna")
    team.share("anna")
    lines = team.run("anna", "log", "--writer", "anna", "--json").out.splitlines()
    assert "Write tests" in [json.loads(line).get("free", {}).get("text") for line in lines]
    undone = json.loads(team.run("anna", "undo", "--writer", "anna", "--yes", "--json").out)["events"]
    assert [3, 4] == [event["book"] for event in undone]
    assert "is not a writer of the book" in team.run("anna", "log", "--writer", "ann", code=2).err


def test_a_join_fetches_a_book_once(tmp_path: Path, run: command_line.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was fetched to show what joining brings is what is taken in then."""
    team = make_team("git", tmp_path, run, monkeypatch)
    team.run("anna", "add", "Use type hints")
    team.share("anna")
    calls: Counter[str] = Counter()
    real = git_remote.run_git

    def run_git(words: Sequence[str], *rest: Any, **options: Any) -> Any:
        calls.update(word for word in words if word in {"ls-remote", "fetch", "push"})
        return real(words, *rest, **options)

    monkeypatch.setattr(git_remote, "run_git", run_git)
    team.share("ben")
    # It is asked again whether anything came since; this remote sends the texts with the first fetch.
    assert {"ls-remote": 2, "fetch": 1} == calls
