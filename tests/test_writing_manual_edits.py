"""Curation by a person, from the command to the file: the answer of each verb, and unchanged past moments."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.manual_edits import curate, edit, rate, read
from helpers.reference_model import book, extraction
from tallybook import compat
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Run


NOBODY = (None, None, "", HUMAN)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries, the second rated helpful by session s1 (events 2 to 9)."""
    made = Project(project)
    for text in ("one", "two", "three"):
        commands.add(made, text, HUMAN)
    commands.record(made, extraction(("kpt_002", "helpful")), {"rater": "reflector", "session": "s1"})
    return made


def counts(here: Project) -> dict[str, tuple[int, int]]:
    """Return the counts of the entries of playbook.json, which must equal the replay."""
    commands.check(here)
    return {kp["name"]: (kp["helpful"], kp["harmful"]) for kp in read(here)["key_points"]}


def test_a_project_without_a_ledger_has_nothing_to_undo(project: Path) -> None:
    """An old playbook is not imported only to be undone at once."""
    here = Project(project)
    edit(here, book({"name": "kpt_001", "text": "old advice"}))
    with pytest.raises(NothingToDoError, match="the ledger: has nothing to undo"):
        curation.undo(here, *NOBODY)
    assert not here.ledger.exists()


def test_undo_takes_an_unrecorded_manual_edit_first(here: Project) -> None:
    """An edit that no command has recorded yet is recorded, and then undone."""
    edit(here, read(here), kpt_001={"text": "spoilt", "harmful": 9})
    assert ["edited kpt_001", "manual edit of"] == [what[:14] for _, what in curation.undo(here, *NOBODY).events]
    assert ["one", "two", "three"] == [kp["text"] for kp in read(here)["key_points"]]


def test_a_file_from_before_an_undo_restores_only_what_it_changes(here: Project) -> None:
    """An unchanged old file changes nothing; a new text keeps the counts, and restores an undone entry."""
    old = read(here)
    curation.undo(here, *NOBODY)
    curation.undo(here, "6", None, "", HUMAN)
    edit(here, old)
    assert {"kpt_001": (0, 0), "kpt_002": (0, 0)} == counts_after(here)
    edit(here, old, kpt_002={"text": "2"}, kpt_003={"text": "3"})
    assert {"kpt_001": (0, 0), "kpt_002": (0, 0), "kpt_003": (0, 0)} == counts_after(here)
    assert ["one", "2", "3"] == [kp["text"] for kp in read(here)["key_points"]]


def counts_after(here: Project) -> dict[str, tuple[int, int]]:
    """Return the counts after a replay."""
    commands.replay(here)
    return counts(here)


def test_secrets_of_a_curating_model_are_masked(here: Project, run: Run) -> None:
    """A model's text and reason are screened; a person's are not."""
    secret = "ghp_" + "a1B2" * 9
    assert "masked" in run("reword", "kpt_001", f"use {secret}", "--rater", "reflector").err
    assert "masked" in run("undo", "--reason", secret, "--rater", "reflector").err
    assert secret.encode() not in (here.ledger / "events.jsonl").read_bytes()
    run("reword", "kpt_001", f"use {secret}")
    assert f"use {secret}" == read(here)["key_points"][0]["text"]


NAMES = st.integers(1, 5).map("kpt_{:03d}".format)
TEXTS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
RATINGS = st.sampled_from(["helpful", "harmful", "harmful"])
UPDATES = st.tuples(st.lists(st.tuples(NAMES, RATINGS), max_size=4), st.lists(TEXTS, max_size=2), TEXTS)
SEQS = st.integers(1, 40).map(str)


def _change(here: Project, name: str, field: str, value: Any) -> None:
    """Change or remove an entry in the file, as an editor does."""
    doc = read(here)
    points = doc["key_points"]
    if field == "order":
        doc["key_points"] = points[::-1]
    elif field == "gone":
        doc["key_points"] = [kp for kp in points if kp["name"] != name]
    edit(here, doc, **{name: {field: value} if field in {"text", "helpful", "harmful"} else {}})


def _save(here: Project, updates: list[tuple[list[tuple[str, str]], list[str], str]]) -> None:
    """Save several updates at once; after each, another process adds an entry."""
    playbook = compat.load_playbook()
    for ratings, new, other in updates:
        compat.update_playbook_data(playbook, extraction(*ratings, new=new))
        commands.add(here, other, HUMAN)
    compat.save_playbook(playbook)
    names = [kp["name"] for kp in playbook["key_points"]]
    assert sorted(set(names)) == sorted(names)


STEPS: Any = st.one_of(
    st.tuples(st.just(rate), st.lists(st.tuples(NAMES, RATINGS), max_size=6)).map(
        lambda drawn: lambda here: drawn[0](here, *drawn[1])
    ),
    st.builds(lambda updates: lambda here: _save(here, updates), st.lists(UPDATES, max_size=3)),
    st.builds(lambda text: lambda here: commands.add(here, text, {"rater": "human", "session": "s3"}), TEXTS),
    st.builds(
        lambda verb, name, text, merged: lambda here: curate(here, verb, name, text, (merged,)),
        st.sampled_from(["retire", "restore", "pin", "unpin", "reword", "merge", "merge"]),
        NAMES,
        TEXTS,
        NAMES,
    ),
    st.builds(
        lambda target, session: lambda here: curation.undo(here, target, session, "", HUMAN),
        st.none() | SEQS,
        st.sampled_from([None, None, "s2", "s3"]),
    ),
    st.builds(
        lambda name, field, text, count: lambda here: _change(here, name, field, text if field == "text" else count),
        NAMES,
        st.sampled_from(["text", "helpful", "harmful", "gone", "order"]),
        TEXTS,
        st.integers(0, 5),
    ),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=3, max_size=12))
def test_any_sequence_leaves_every_moment_unchanged(
    new_project: Callable[[], Path], steps: list[Callable[[Project], Any]]
) -> None:
    """After each step the file is the replay, a dict loaded from it is equal, and the past is unchanged."""
    here = Project(new_project())
    for text in "abc":
        commands.add(here, text, HUMAN)
    moments = {}
    for step in steps:
        # No, or bad input: the ledger is as it was.
        with suppress(NothingToDoError, UnknownEntryError, BadInputError):
            step(here)
        commands.replay(here)
        commands.check(here)
        state = reading.current(reading.open_log(here))
        moments[state.seq] = commands.show(here)
        assert commands.show(here)["key_points"] == compat.load_playbook()["key_points"]
        assert state.due.keys() <= state.entries.keys() - state.pinned
        assert not state.entries.keys() & (state.gone.keys() | state.merged.keys())
        assert set(state.merged.values()) <= state.entries.keys() | state.gone.keys()
    assert moments == {seq: commands.show(here, str(seq)) for seq in moments}
    assert commands.verify_and_fold(here)[0].ok


@pytest.mark.parametrize("broken", [{}, {"txt": "two"}, {"text": " "}])
def test_an_item_without_a_text_leaves_its_entry_as_it_was(here: Project, run: Run, broken: dict[str, str]) -> None:
    """An edit that loses the text of an entry removes nothing, and a note names the entry."""
    document = read(here)
    document["key_points"][1] = {"name": "kpt_002"} | broken
    del document["key_points"][2]
    edit(here, document, kpt_001={"text": "changed"})
    result = run("rate", "kpt_001", "helpful", "--project", str(here.root))
    assert "note: playbook.json: kpt_002: has no text there, and stays as it was" in result.err
    assert {"kpt_001": (1, 0), "kpt_002": (1, 0)} == counts(here)
    assert ["changed", "two"] == [kp["text"] for kp in read(here)["key_points"]]
