"""The law of caches: whatever is in the cache folder, every reading verb answers as it does without a cache."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.cache_damages import DAMAGES
from helpers.cache_places import caches_of
from helpers.long_ledgers import CLOSED, LONG, ODD, STORY, grow, make_long, opened, project_of
from helpers.score_histories import metrics
from tallybook.ledger.events import (
    EventsVoided,
    PointAdded,
    PointMerged,
    PointPinned,
    PointRated,
    PointRestored,
    PointReworded,
)
from tallybook.projections.surfaces.writing import redact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.command_line import Answer, Run
    from tallybook.ledger.backends.jsonl import JsonlLog

HISTORY: list[list[Any]] = [
    *STORY,
    [PointAdded("kpt_010", "Keep the private text to yourself"), CLOSED],
    [*[PointRated("kpt_001", "harmful")] * 4, CLOSED],
    [metrics("ac01", completion_rate=0.9), PointRated("kpt_010", "helpful"), CLOSED],
    [EventsVoided((), "s3", "a wrong session")],
    [PointReworded("kpt_002", "the text of kpt_002", LONG)],
]
"""A prune, an entry of which a text is redacted, metrics, an undo of a session, and a long text."""
LATER: list[list[Any]] = [
    [PointMerged("kpt_002", (ODD,), "the same")],
    [PointRestored("kpt_001", "needed"), PointPinned("kpt_001", "")],
    [PointRated(ODD, "harmful"), PointRated("kpt_002", "helpful"), CLOSED],
    [EventsVoided(("id-19",), None, "one rating")],
    [metrics("ac03", thoroughness=0.5), PointRated("kpt_010", "harmful")],
    [CLOSED],
]
"""A merge, a restore, an undo of an event, and a rating without an update, which follows later."""
WHENS = ("7", "~3", "2023-11-14T22:18", "session:s3", "session:s3+", "session:s1", "session:none")
READINGS = (
    ("show",),
    *(("show", "--at", when) for when in WHENS),
    *(("why", name) for name in ("kpt_001", "kpt_002", "kpt_010", ODD, "text of kpt", "kpt_999")),
    *(("why", "kpt_002", "--at", when) for when in WHENS),
    *(("log", *words) for words in ((), ("kpt_002",), (ODD,), ("--session", "s8"), ("--since", "session:s4"))),
    ("blame",),
    ("graveyard",),
    ("needs-ratings",),
    ("diff", "9", "~2"),
    ("bisect", "kpt_001.harmful > kpt_001.helpful"),
    ("bisect", "pruned(kpt_001)", "--last"),
    ("bisect", "count < 3"),
    ("what-if", "--without", "session:s3"),
    ("sql", "select kind, count(*) from events group by kind order by kind"),
    ("score", "--monthly"),
    ("score", "--at", "~3"),
)
"""Words of the verbs that read the history."""


def answers(run: Run) -> dict[tuple[str, ...], Answer]:
    """Return each answer for people and for programs, by the words of its command."""
    return {words: run(*words) for reading in READINGS for words in (reading, (*reading, "--json"))}


@pytest.fixture(params=["short", "long"])
def log(project: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[JsonlLog]:
    """Return a ledger with a prune, a redaction and undone events; caches are written of it even if it is short."""
    made = opened(project / "inner")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project_of(made).root))
    if request.param == "short":
        make_long(monkeypatch)
    grow(made, [*HISTORY, *([[PointReworded("kpt_002", "", LONG)]] * 8 if request.param == "long" else [])])
    redact.redact(project_of(made), redact.RedactionTarget(None, "kpt_010"), "private", HUMAN)
    yield made
    made.close()


def test_no_state_of_the_caches_changes_an_answer(log: JsonlLog, run: Run, tmp_path: Path) -> None:
    """Answers are equal with no cache, new caches, older ones, missing files, and each kind of damage."""
    answers(run)
    folder, older = caches_of(log.folder), tmp_path / "older"
    shutil.copytree(folder, older)
    grow(log, LATER)
    with pytest.MonkeyPatch.context() as patch:
        # Only an absolute path is used.
        patch.setenv("TALLYBOOK_CACHE_DIR", "none")
        expected = answers(run)
    assert {0, 1, 2} == {answer.code for answer in expected.values()}
    # The caches are older at first, and new the second time.
    assert expected == answers(run)
    assert expected == answers(run)
    shutil.rmtree(folder)
    shutil.copytree(older, folder)
    assert expected == answers(run)
    for damage in (DAMAGES["a bit flipped"], DAMAGES["cut"]):
        for number, path in enumerate(sorted(filter(_is_cache, folder.rglob("*")))):
            # Some files are intact beside the damaged ones, so that no answer mixes them.
            if number % 3:
                path.write_bytes(damage(path.read_bytes()))
        assert expected == answers(run)


def _is_cache(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
