"""The playbook as a component of the scores: its measurements of a session, and its score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.documentation import examples
from helpers.injections import injected
from helpers.view_histories import history
from tallybook.ledger.events import (
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointMerged,
    PointRated,
    PointRestored,
    PointRetired,
)
from tallybook.projections.fold import fold_history
from tallybook.projections.scores.config_file import overlaid, read_config
from tallybook.projections.scores.view import Scores, scores_view
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallybook.ledger.records import Batch

ON: dict[str, Any] = {"components": {"playbook": {"enabled": True}}}
CLOSE = PlaybookUpdated(0, 0, 0)
A, B = PointAdded("kpt_001", "Use types."), PointAdded("kpt_002", "Mock time.")
HELPFUL, HARMFUL = PointRated("kpt_001", "helpful"), PointRated("kpt_001", "harmful")
PRUNE: list[Any] = [HARMFUL, HARMFUL, HARMFUL, CLOSE]


def config(own: dict[str, Any]) -> Any:
    """Return the configuration of a project whose file has this below ``scoring``."""
    return read_config(overlaid(configuration.default(), {"scoring": own}))


def scored(batches: Sequence[Batch], own: dict[str, Any] | None = None) -> Scores:
    """Return the scores of a history, with the component switched on by default."""
    return fold_history(scores_view(config(ON if own is None else own)), lambda: batches).count()


def of_session(state: Scores, session: str) -> dict[str, float]:
    """Return the playbook's measurements of a session, without those of 0."""
    found = state.session(session)
    assert found is not None
    measured = found.measured(state.config.components["playbook"])
    return {name: value for name, value in measured.items() if value}


# What is measured: the second batch, of session s1, behind one that adds two entries in s0


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([CLOSE], {}),
        ([HELPFUL, HARMFUL, CLOSE], {"ratings": 2, "judged": 2, "helpful": 1}),
        ([PointRated("kpt_001", "neutral"), CLOSE], {"ratings": 1}),
        ([PointRated("kpt_001", "superb"), CLOSE], {}),
        ([PointRated("kpt_009", "helpful"), CLOSE], {}),
        ([PointRetired("kpt_001", ""), HELPFUL, CLOSE], {}),
        ([PointMerged("kpt_002", ("kpt_001",), ""), HELPFUL, CLOSE], {"ratings": 1, "judged": 1, "helpful": 1}),
        ([PointAdded("kpt_003", "Quote ids."), CLOSE], {"learned": 1}),
        ([PointAdded("kpt_001", "Quote ids."), CLOSE], {}),
        (PRUNE, {"ratings": 3, "judged": 3, "pruned": 1}),
        ([*PRUNE, CLOSE], {"ratings": 3, "judged": 3, "pruned": 1}),
        ([injected(("kpt_001", "kpt_002"), 4), injected(("kpt_001",), 5)], {"told": 3}),
        ([PointCited("kpt_001", "message"), PointCited("kpt_001", "Bash")], {"cited": 2}),
    ],
)
def test_an_event_is_measured_for_its_session(events: list[Any], expected: dict[str, float]) -> None:
    """Ratings count if they name a present entry, an addition if it is new, a prune once."""
    assert expected == of_session(scored(history([[A, B, CLOSE], events])), "s1")


@pytest.mark.parametrize(
    ("between", "text", "relearned"),
    [
        ([], "Use types.", 1),
        ([], "use   TYPES", 1),
        ([], "Use all types.", 0),
        ([], None, 0),
        ([PointRestored("kpt_001", "")], "Use types.", 0),
    ],
)
def test_a_pruned_text_that_is_added_again_counts(between: list[Any], text: str | None, relearned: int) -> None:
    """Case, white space and punctuation do not matter; a returned entry is not pruned; a text may be redacted."""
    batches = history([[A, CLOSE], PRUNE, [*between, PointAdded("kpt_002", text), CLOSE]])
    found = of_session(scored(batches), "s2")
    assert (1, relearned) == (found["learned"], found.get("relearned", 0))


# What it comes to


# Switched off


def test_the_example_in_the_documentation_switches_it_on(project: Path) -> None:
    """It works unchanged in the project's own file."""
    (example,) = (block for block in examples("yaml") if "enabled: true" in block.code)
    (project / ".claude" / "config").mkdir()
    (project / configuration.PLACE).write_text(example.code, encoding="utf-8")
    assert "playbook" in configuration.load(Project(project)).sessions["improvement"]
