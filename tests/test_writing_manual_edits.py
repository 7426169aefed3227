"""Curation by a person, from the command to the file: the answer of each verb, and unchanged past moments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.manual_edits import curate, edit, rate, read
from helpers.reference_model import extraction
from tallybook import compat
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries, the second rated helpful by session s1 (events 2 to 9)."""
    made = Project(project)
    for text in ("one", "two", "three"):
        commands.add(made, text, HUMAN)
    commands.record(made, extraction(("kpt_002", "helpful")), {"rater": "reflector", "session": "s1"})
    return made


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
