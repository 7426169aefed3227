"""The Python library: its page, its names, and the errors of its arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
import contextlib
from importlib import import_module
import io
import os
from pathlib import Path
import re
import subprocess
import sys
from typing import Any, get_args

import pytest

from helpers.commands import ROOT, installed
import tallybook
from tallybook import compat
from tallybook.ledger.events import EVENT_TYPES, RATINGS
from tallybook.projections.surfaces.workspace.project import Project

LIBRARY = ROOT / "projections" / "surfaces" / "library"
EXAMPLES: list[str] = re.findall(r"```python\n(.*?)```", (LIBRARY / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_of_the_page_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example runs after the others, and prints the lines in its comments."""
    (tmp_path / "my-project").mkdir()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for example in EXAMPLES:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example, "README.md", "exec"), names)  # noqa: S102 - the page is what is tested
        assert re.findall(r"^# (.*)$", example, re.MULTILINE) == printed.getvalue().splitlines(), example


def test_importing_the_package_loads_nothing_else() -> None:
    """Every hook imports `tallybook`, which loads no other module, be it attrs, msgspec, click or its own."""
    code = "import sys; before = set(sys.modules); import tallybook; print(sorted(set(sys.modules) - before))"
    environment = os.environ | {"PYTHONPATH": installed()}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "['tallybook']\n" == done.stdout


def test_the_package_has_the_names_of_its_api() -> None:
    """Each name of the library is that of `tallybook.api`, and `dir` lists it."""
    api = import_module("tallybook.api")
    assert {*api.__all__} <= {*dir(tallybook)}
    assert all(getattr(tallybook, name) is getattr(api, name) for name in api.__all__)


def test_a_ledger_leaves_no_file_open(tmp_path: Path) -> None:
    """After any number of calls a process has as many open files as before."""
    ledger = tallybook.open(tmp_path)
    ledger.add("Write tests")
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - a list of numbers, not of paths
    for _ in range(3):
        ledger.rate("kpt_001", "helpful")
        assert [1] == [len(ledger.entries())]
        assert ledger.why("kpt_001")["name"] == "kpt_001"
        list(ledger.events())
        ledger.fold(tallybook.View(tallybook.State, {}), at=3)
    assert before == len(os.listdir("/dev/fd"))  # noqa: PTH208


HUGE = 10**5000
WRONG: dict[str, object] = {
    "None": None,
    "a number": 5,
    "a negative number": -1,
    "an endless number": HUGE,
    "a bool": True,
    "a float": 1.5,
    "bytes": b"x",
    "a list": ["a"],
    "an empty list": [],
    "a dict": {"a": 1},
    "an object": object(),
    "an empty text": "",
    "blanks": " ",
    "half a surrogate pair": "\ud800",
    "a NUL": "a\0b",
    "an endless text": "x" * 200_001,
}

CALLS: dict[str, Callable[[tallybook.Ledger, Any], object]] = {
    "open project": lambda _, bad: tallybook.open(bad),
    "open by": lambda _, bad: tallybook.open(by=bad),
    "Ledger project": lambda _, bad: tallybook.Ledger(bad),
    "add text": lambda ledger, bad: ledger.add(bad),
    "add key": lambda ledger, bad: ledger.add("a key", key=bad),
    "rate name": lambda ledger, bad: ledger.rate(bad, "helpful"),
    "rate rating": lambda ledger, bad: ledger.rate("kpt_001", bad),
    "record extraction": lambda ledger, bad: ledger.record(bad),
    "record texts": lambda ledger, bad: ledger.record({"new_key_points": bad}),
    "record section": lambda ledger, bad: ledger.record({"new_key_points": [{"text": "t", "section": bad}]}),
    "record rating": lambda ledger, bad: ledger.record({"evaluations": [{"name": bad, "rating": bad}]}),
    "record operation": lambda ledger, bad: ledger.record(
        {"evaluations": [], "operations": [bad, {"type": "MERGE", "source_ids": [bad, bad], "merged_text": bad}]}
    ),
    "pin name": lambda ledger, bad: ledger.pin(bad),
    "reword text": lambda ledger, bad: ledger.reword("kpt_002", bad),
    "merge merged": lambda ledger, bad: ledger.merge("kpt_002", bad),
    "undo event": lambda ledger, bad: ledger.undo(bad or "x"),
    "undo session": lambda ledger, bad: ledger.undo(3, session=bad or "x"),
    "entries at": lambda ledger, bad: ledger.entries(at=bad),
    "events name": lambda ledger, bad: list(ledger.events(name=bad)),
    "events kinds": lambda ledger, bad: list(ledger.events(kinds=bad)),
    "events kind": lambda ledger, bad: list(ledger.events(kinds=[bad])),
    "events since": lambda ledger, bad: list(ledger.events(since=bad)),
    "fold view": lambda ledger, bad: ledger.fold(bad),
    "why words": lambda ledger, bad: ledger.why(bad),
    "diff first": lambda ledger, bad: ledger.diff(bad),
    "compat generate_keypoint_name": lambda _, bad: compat.generate_keypoint_name(bad),
    "compat load_template": lambda _, bad: compat.load_template(bad),
    "compat save_diagnostic content": lambda _, bad: compat.save_diagnostic(bad, "name"),
    "compat is_first_message": lambda _, bad: compat.is_first_message(bad),
    "compat update playbook": lambda _, bad: compat.update_playbook_data(bad, {}),
    "compat update entry": lambda _, bad: compat.update_playbook_data({"key_points": [bad]}, {}),
    "compat update counter": lambda _, bad: compat.update_playbook_data(
        {"key_points": [{"name": "kpt_001", "text": "a", "helpful": bad}]}, {}
    ),
    "compat update result": lambda _, bad: compat.update_playbook_data({"key_points": []}, bad),
    "compat update items": lambda _, bad: compat.update_playbook_data(
        {"key_points": []}, {"new_key_points": [bad], "evaluations": [bad, {"name": bad, "rating": bad}]}
    ),
    "compat format playbook": lambda _, bad: compat.format_playbook(bad),
    "compat save playbook": lambda _, bad: compat.save_playbook(bad),
    "compat save entry": lambda _, bad: compat.save_playbook(compat.load_playbook() | {"key_points": [bad]}),
    "compat save name": lambda _, bad: compat.save_playbook({"key_points": [{"name": bad, "text": "a"}]}),
    "compat save top": lambda _, bad: compat.save_playbook({"owner": bad}),
    "compat load_transcript": lambda _, bad: compat.load_transcript(bad),
    "compat extract messages": lambda _, bad: asyncio.run(compat.extract_keypoints(bad, {})),
}


@pytest.fixture
def ledger(project: Path, monkeypatch: pytest.MonkeyPatch) -> tallybook.Ledger:
    """Return the ledger of a project with two entries, of which the second is pinned."""
    monkeypatch.chdir(project)
    opened = tallybook.open(project)
    opened.record({"new_key_points": ["Use types", "Write tests"]})
    opened.pin("kpt_002")
    return opened


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_wrong_argument_is_a_tallybook_error(
    ledger: tallybook.Ledger, call: Callable[[tallybook.Ledger, Any], object]
) -> None:
    """A function takes an argument of another type, an empty one or one that is not Unicode, or raises one line."""
    for what, bad in WRONG.items():
        message = ""
        try:
            call(ledger, bad)
        except tallybook.TallybookError as error:
            message = str(error)
        assert "--" not in message.partition(": ")[0], what
        assert 1 >= len(message.splitlines()), what


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ledger: ledger.record("{}"), "extraction: expected Mapping, got str; nothing was recorded"),
        (lambda ledger: ledger.add(None), "text: expected str, got NoneType; nothing was recorded"),
        (lambda ledger: ledger.rate("kpt_001", "helpfull"), "rating: 'helpfull' is not a rating; use helpful,"),
        (lambda ledger: ledger.rate("kpt_001", "helpful", reason="x" * 1_001), "reason: the reason has 1,001"),
        (lambda ledger: ledger.events(kinds=["point.ratd"]), "kinds: 'point.ratd' is not a kind; a kind is"),
        (lambda ledger: ledger.events(since=True), "since: expected int, got bool"),
        (lambda ledger: ledger.entries(at="yesterdy"), "at: 'yesterdy' is not a moment"),
        (lambda ledger: ledger.undo(session="nobody"), "session nobody: no session has an id that begins with it"),
        (lambda ledger: ledger.undo(3, session="s"), "undo: takes either event or session; give one of them"),
        (lambda ledger: ledger.merge("kpt_001"), "merged: names no entry"),
        (lambda _: tallybook.open("nowhere"), "nowhere: is not a folder"),
        (lambda _: tallybook.open(by=tallybook.Author("robot")), "rater: 'robot' is not a rater; use one of human"),
        (lambda _: compat.load_template("nothing.txt"), "name: 'nothing.txt' is not a template; use playbook.txt"),
        (lambda _: compat.save_diagnostic("a", "../b"), "name: cannot be part of a file's name"),
    ],
)
def test_a_message_names_the_argument(
    ledger: tallybook.Ledger, call: Callable[[tallybook.Ledger], object], message: str
) -> None:
    """An error begins with the argument that is wrong, and names no option of the command line."""
    with pytest.raises(tallybook.BadInputError) as refused:
        call(ledger)
    assert message == str(refused.value)[: len(message)]


def test_a_disk_that_refuses_is_a_tallybook_error(project: Path) -> None:
    """A ledger, a playbook and a transcript that are folders, and a diagnostic that has no room, are one line each."""
    ledger = tallybook.open(project)
    ledger.add("Use types")
    log = Project(project).ledger / "events.jsonl"
    log.rename(log.with_name("away"))
    log.mkdir()
    for call in (lambda: ledger.add("b"), ledger.entries, lambda: list(ledger.events()), lambda: ledger.diff(1)):
        with pytest.raises(tallybook.TallybookError):
            call()
    with pytest.raises(tallybook.CannotWriteError, match="the diagnostic is not written"):
        compat.save_diagnostic("content", "x" * 300)
    transcript = project / "session.jsonl"
    transcript.symlink_to(transcript)
    assert [] == compat.load_transcript(transcript)


def test_a_wrong_rating_is_found_by_mypy_and_every_kind_is_taken(ledger: tallybook.Ledger) -> None:
    """`rate` takes the ratings that count, and `events` the kinds that there are.

    Without the error mypy would report the comment below as unused.
    """
    with pytest.raises(tallybook.BadInputError):
        ledger.rate("kpt_001", "helpfull")  # type: ignore[arg-type]
    assert tuple(RATINGS) == get_args(tallybook.RatingWord)
    families = dict.fromkeys(f"{kind.partition('.')[0]}.*" for kind in EVENT_TYPES)
    for kind in (*EVENT_TYPES, *families):
        ledger.events(kinds=[kind])


def test_inside_an_agent_the_library_proposes_what_only_a_person_may(
    ledger: tallybook.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A protected entry stays: the change becomes a proposal, as with the verb, and an error says so."""
    monkeypatch.setenv("CLAUDECODE", "1")
    with pytest.raises(tallybook.ProposedError, match="retire: names a protected entry, so inside an agent"):
        ledger.retire("kpt_002")
    assert ["kpt_001", "kpt_002"] == [entry.name for entry in ledger.entries()]
