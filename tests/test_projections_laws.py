"""The laws of every view, over random histories: a view depends on the events alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
import json
from pathlib import Path
import tempfile
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.reference_model import EXTRACTIONS, LEGACY_FILES, ReferenceModel, migrate
from helpers.sweep import slice_of
from helpers.view_catalog import CONFIGURED_VIEWS, VIEWS
from helpers.view_histories import FUTURES, HISTORIES, comparable, history, make_ticking_clock, plain
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.events import UnknownEvent
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch, make_batch
from tallybook.projections.playbook.fold import View, fold, fold_history
from tallybook.projections.playbook.fold import history as with_records
from tallybook.projections.playbook.render import playbook_dict
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.scores.config import overlay, read_config
from tallybook.projections.surfaces.history import checkpoints
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.requests import Import, Request, Update

Made = View[Any]
SWITCHED_ON = {"scoring": {"components": {"playbook": {"enabled": True}}}}


@cache
def every_view() -> list[tuple[str, Made]]:
    """Return each view with its name, one of a configuration for two; a law draws a history once and holds for all."""
    default = configuration.default()
    configs = [read_config(default), read_config(overlay(default, SWITCHED_ON))]
    configured = [(name, make(config)) for name, make in CONFIGURED_VIEWS.items() for config in configs]
    return [*((name, make()) for name, make in VIEWS.items()), *configured]


def fold_all(view: Made, batches: Sequence[Batch], until: int | None = None) -> Any:
    """Return the state of a view after a whole history, without its undone events."""
    return fold_history(view, lambda: batches, until)


@given(stretches=HISTORIES)
def test_the_same_events_give_the_same_view(stretches: list[list[Any]]) -> None:
    """Equal events in other objects give a view that is equal in every field."""
    for name, view in every_view():
        first, second = (plain(fold_all(view, history(stretches))) for _ in range(2))
        assert first == second, name


@settings(max_examples=slice_of(100, 20))
@given(stretches=HISTORIES)
def test_a_view_as_of_a_moment_is_the_fold_of_the_batches_up_to_it(stretches: list[list[Any]]) -> None:
    """A moment inside a batch shows the state before that batch."""
    batches = history(stretches)
    moments = range(sum(map(len, stretches)) + 2)
    for name, view in every_view():
        folds = [plain(fold_all(view, batches[:count])) for count in range(len(batches) + 1)]
        for seq in moments:
            whole = sum(batch.last <= seq for batch in batches)
            assert folds[whole] == plain(fold_all(view, batches, seq)), (name, seq)


@given(stretches=FUTURES)
def test_unknown_kinds_change_no_view(stretches: list[list[Any]]) -> None:
    """A history with events of unknown kinds shows the same as the history without them."""
    batches = history(stretches)
    known = [
        [other for other in batch.records if not isinstance(other.event, UnknownEvent)]
        for batch in batches
        if batch.records
    ]
    without = [make_batch(*records, chain="other") for records in known if records]
    for name, view in every_view():
        assert comparable(fold_all(view, without)) == comparable(fold_all(view, batches)), name


@given(stretches=HISTORIES)
def test_a_fold_in_two_parts_equals_a_fold_at_once(stretches: list[list[Any]]) -> None:
    """Folding up to any batch and continuing from that state gives the same state as one fold."""
    batches = list(with_records(lambda: history(stretches)))
    for name, view in every_view():
        at_once = plain(fold(view, batches))
        for cut in range(len(batches) + 1):
            assert at_once == plain(fold(view, batches[cut:], fold(view, batches[:cut]))), (name, cut)


# Views of real logs


def whole(brought: dict[str, Any]) -> dict[str, Any]:
    """Return an extraction result that has both of its lists."""
    return {"new_key_points": [], "evaluations": []} | brought


def drop_date(doc: dict[str, Any]) -> dict[str, Any]:
    """Return a playbook without its date, which the ledger gives and the reference model has not."""
    return {key: value for key, value in doc.items() if key != "last_updated"}


def deliver(log: JsonlLog, what: Update | Import, key: str | None) -> record.Outcome:
    """Record one delivery on any log."""
    opened = Opened(Project(Path(log.folder)))
    with log.transaction() as tx:
        state = fold(PLAYBOOK, decode(tx.read()))
        (outcome,) = record.Write(opened).append_requests(tx, state, [Request(what, {"rater": "reflector"}, key)])
    return outcome


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(legacy=LEGACY_FILES, updates=st.lists(EXTRACTIONS, max_size=5))
def test_a_replay_equals_the_specification_after_every_batch(
    tmp_path: Path, legacy: dict[str, Any], updates: list[dict[str, Any]]
) -> None:
    """For any legacy file and any updates, every moment of the ledger equals the specification's result."""
    log, model = JsonlLog(Path(tempfile.mkdtemp(dir=tmp_path)), make_ticking_clock()), ReferenceModel(migrate(legacy))
    deliver(log, Import(read_legacy(json.dumps(legacy).encode())), None)
    moments = {log.head().seq: model.copy().playbook}
    for brought in updates:
        model.update(brought)
        deliver(log, Update(whole(brought)), None)
        moments[log.head().seq] = model.copy().playbook
    for seq, expected in moments.items():
        state = fold(PLAYBOOK, decode(log.read()), until=seq)
        assert drop_date(expected) == drop_date(playbook_dict(state))
    log.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(legacy=LEGACY_FILES, updates=st.lists(EXTRACTIONS, max_size=5))
def test_playbook_json_equals_the_specification_after_every_command(
    new_project: Callable[[], Path], legacy: dict[str, Any], updates: list[dict[str, Any]]
) -> None:
    """A project that begins with a legacy file has the specification's playbook.json after every record."""
    project = Project(new_project())
    project.playbook.write_text(json.dumps(legacy), encoding="utf-8")
    model = ReferenceModel(migrate(legacy))
    for brought in updates:
        model.update(brought)
        outcome = commands.record(project, whole(brought), {"rater": "reflector"})
        on_disk = json.loads(project.playbook.read_bytes())
        assert on_disk.pop("ledger").startswith(f"{outcome.seq_to}:")
        assert drop_date(model.playbook) == drop_date(on_disk)


UPDATES = EXTRACTIONS.map(lambda brought: Update(whole(brought)))
IMPORTS = LEGACY_FILES.map(lambda doc: Import(read_legacy(json.dumps(doc).encode())))
DELIVERIES = st.lists(UPDATES | IMPORTS, max_size=5)


def views_of(log: JsonlLog) -> list[Any]:
    """Return the document of every view of the catalog for a log."""
    return [comparable(fold(view, decode(log.read()))) for _, view in every_view()]


@settings(max_examples=slice_of(30, 10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=DELIVERIES)
def test_a_second_delivery_changes_no_view(tmp_path: Path, sent: list[Update | Import]) -> None:
    """A delivery that repeats a key, at once or after all the others, is refused, and no view includes it."""
    log = JsonlLog(Path(tempfile.mkdtemp(dir=tmp_path)), make_ticking_clock())
    for index, what in enumerate(sent):
        deliver(log, what, f"key-{index}")
        shown, head = views_of(log), log.head()
        assert deliver(log, what, f"key-{index}").repeated
        assert (shown, head) == (views_of(log), log.head())
    shown = views_of(log)
    assert all(deliver(log, what, f"key-{index}").repeated for index, what in enumerate(sent))
    assert shown == views_of(log)
    log.close()


@settings(max_examples=slice_of(30, 10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=DELIVERIES)
def test_reading_on_from_a_position_equals_reading_at_once(tmp_path: Path, sent: list[Update | Import]) -> None:
    """A state knows its position in the log; folding the later events completes the state."""
    log = JsonlLog(Path(tempfile.mkdtemp(dir=tmp_path)), make_ticking_clock())
    views = [view for _, view in every_view()]
    states = [view.start() for view in views]
    for what in sent:
        deliver(log, what, None)
        states = [
            fold(view, decode(log.read(checkpoints.position_of(state))), state)
            for view, state in zip(views, states, strict=True)
        ]
        assert [plain(fold(view, decode(log.read()))) for view in views] == [plain(state) for state in states]
    log.close()
