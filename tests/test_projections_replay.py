"""A replay of the ledger equals the specification applied update by update."""

from __future__ import annotations

import json
from pathlib import Path
import tempfile
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.reference_model import EXTRACTIONS, LEGACY_FILES, Model, migrate
from tallybook.ledger.clock import moment
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.log import JsonlLog
from tallybook.projections.fold import fold
from tallybook.projections.playbook.render import playbook_dict
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import Import, Request, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallybook.ledger.clock import Now

REFLECTOR = {"rater": "reflector"}
UPDATES = st.lists(EXTRACTIONS, max_size=5)


def ticking() -> Callable[[], Now]:
    """Return a clock that moves on by a second at each read."""
    seconds = iter(range(1_000_000_000, 2_000_000_000))
    return lambda: moment(next(seconds) * 1_000_000)


def whole(brought: dict[str, Any]) -> dict[str, Any]:
    """Return an extraction result that has both of its lists."""
    return {"new_key_points": [], "evaluations": []} | brought


class Scribe:
    """Records on any log, and knows the expected result by the reference model.

    Attributes:
        log: The log.
        moments: Event number after each batch → the playbook that the specification gives for it.
    """

    def __init__(self, log: JsonlLog, legacy: dict[str, Any]) -> None:
        """Import a legacy file."""
        self.log = log
        self._model = Model(migrate(legacy))
        self.moments: dict[int, dict[str, Any]] = {}
        self._record(Import(read_legacy(json.dumps(legacy).encode())), {"rater": "import"})

    def update(self, brought: dict[str, Any]) -> None:
        """Record an extraction result, as one batch."""
        self._model.update(brought)
        self._record(Update(whole(brought)), REFLECTOR)

    def _record(self, what: Update | Import, by: dict[str, str]) -> None:
        opened = Opened(Project(Path(self.log.folder)))
        with self.log.transaction() as tx:
            state = fold(PLAYBOOK, decode(tx.read()))
            (outcome,) = record.Writing(opened).append_all(tx, state, [Request(what, by)])
        assert outcome.seq_to == self.log.head().seq
        self.moments[self.log.head().seq] = self._model.copy().playbook


def written(folder: Path, legacy: dict[str, Any], updates: Sequence[dict[str, Any]]) -> Scribe:
    """Return a function that records a legacy file and updates."""
    scribe = Scribe(JsonlLog(folder, ticking()), legacy)
    for brought in updates:
        scribe.update(brought)
    return scribe


def shown(state: Playbook) -> dict[str, Any]:
    """Return the reference model's playbook: everything but its date."""
    return {key: value for key, value in playbook_dict(state).items() if key != "last_updated"}


def undated(doc: dict[str, Any]) -> dict[str, Any]:
    """Return a document of the reference model without its date, which the ledger gives."""
    return {key: value for key, value in doc.items() if key != "last_updated"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(legacy=LEGACY_FILES, updates=UPDATES)
def test_a_replay_equals_the_specification_after_every_batch(
    tmp_path: Path, legacy: dict[str, Any], updates: list[dict[str, Any]]
) -> None:
    """For any legacy file and any updates, every moment of the ledger equals the specification's result."""
    scribe = written(Path(tempfile.mkdtemp(dir=tmp_path)), legacy, updates)
    for seq, expected in scribe.moments.items():
        assert undated(expected) == shown(fold(PLAYBOOK, decode(scribe.log.read()), until=seq))
    scribe.log.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(legacy=LEGACY_FILES, updates=UPDATES)
def test_playbook_json_equals_the_specification_after_every_command(
    new_project: Callable[[], Path], legacy: dict[str, Any], updates: list[dict[str, Any]]
) -> None:
    """A project that begins with a legacy file has the specification's playbook.json after every record."""
    project = Project(new_project())
    project.playbook.write_text(json.dumps(legacy), encoding="utf-8")
    model = Model(migrate(legacy))
    for brought in updates:
        model.update(brought)
        outcome = commands.record(project, whole(brought), REFLECTOR)
        on_disk = json.loads(project.playbook.read_bytes())
        assert on_disk.pop("ledger").startswith(f"{outcome.seq_to}:")
        assert undated(model.playbook) == undated(on_disk)
