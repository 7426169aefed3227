"""The verb `score record` at length: parts, bounds, and any JSON in any order of deliveries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.json_values import JSON
from helpers.sweep import slice_of
from helpers.telemetry_files import AT, TELEMETRY, bodies, rows, written
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.scores import read as ingest
from tallybook.projections.surfaces.scores.cli import report_json
from tallybook.projections.surfaces.scores.read import PROBLEMS_SHOWN, Defaults, feed, items
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from tallybook.projections.surfaces.scores.read import Item


def record_lines(project: Path, lines: list[Any]) -> dict[str, Any]:
    """Record a file of these lines and return the answer."""
    file = written(project / "a.jsonl", lines)
    return report_json(feed(Project(project), [items(str(file))], Defaults(), lambda _: None))


def test_odd_objects_are_listed_up_to_a_bound(project: Path) -> None:
    """A few of each sort and some hundred in all are listed, with their number, and so are types."""
    lines = [*["x"] * 1_000, *[{"event_type": f"t{n}", "timestamp": AT, "session_id": "\n"} for n in range(700)]]
    lines += [{"metrics": {f"m{n}": "x", "a": 1}, "at": AT, "component": "a", "session_id": "s"} for n in range(300)]
    answer = record_lines(project, lines)
    assert 20 == sum(one["message"] == "is not a JSON object; it is not recorded" for one in answer["problems"])
    assert (PROBLEMS_SHOWN, 1_000 + 700 + 300) == (
        len(answer["problems"]),
        len(answer["problems"]) + answer["more_problems"],
    )
    assert (501, 200, 700) == (len(answer["kept"]), answer["kept"]["others"], sum(answer["kept"].values()))


def test_a_long_file_is_recorded_in_parts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most two parts are in memory at once, whatever the file's length, and all of them are recorded."""
    monkeypatch.setattr(ingest, "CHUNK_OBJECTS", 10)
    file = written(project / "a.jsonl", [{"metrics": {"a": n}, "session_id": "s", "component": "c"} for n in range(95)])
    read: list[int] = []
    ahead: list[int] = []

    def counted(source: Iterator[Item]) -> Iterator[Item]:
        for item in source:
            read.append(1)
            yield item

    def tell(done: int) -> None:
        ahead.append(len(read) - done)

    source = items(str(file))
    fed = feed(Project(project), [counted(source)], Defaults(), tell)  # type: ignore[arg-type]
    assert ({"metrics.recorded": 95}, 10) == (fed.recorded, max(ahead))
    assert 10 == len(ahead)
    assert [{"a": n} for n in range(95)] == [row["body"]["metrics"] for row in rows(Project(project))]


def test_a_long_object_is_kept_whole_or_by_its_beginning(project: Path) -> None:
    """Its text continues over several lines of the ledger, up to its bound."""
    said = [{"event_type": "coffee", "data": "ü" * size, "at": AT} for size in (50_000, 500_000)]
    assert {"telemetry.kept": 2} == record_lines(project, said)["recorded"]
    here = Project(project)
    first, second = (row["free"]["original"] for row in rows(here))
    assert said[0] == json.loads(first)
    assert json.loads(second).startswith('{"event_type":"coffee","data":"üüü')
    lines = here.ledger.joinpath("events.jsonl").read_bytes().split(b"\n")
    assert max(map(len, lines)) < 64 * 1024
    assert commands.verify(here).ok


EVENTS = st.builds(
    lambda said, more: said | more,
    st.sampled_from([*TELEMETRY, {"metrics": {"a": 1}}, {"feedback": "helpful"}, {"event_type": "session_end"}]),
    st.dictionaries(st.sampled_from(["component", "session_id", "timestamp", "data", "note", "metrics"]), JSON),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=slice_of(40, 15))
@given(known=st.lists(EVENTS | JSON, max_size=6), grown=st.lists(EVENTS | JSON, max_size=4))
def test_a_grown_file_adds_the_new_objects(
    new_project: Callable[[], Path], tmp_path: Path, known: list[Any], grown: list[Any]
) -> None:
    """For any JSON nothing raises, the second time adds nothing, and recording it in parts gives the same."""
    parts, whole = Project(new_project()), Project(new_project())
    file = tmp_path / "events.jsonl"
    for lines in (known, [*known, *grown]):
        for again in (False, True):
            fed = feed(parts, [items(str(written(file, lines)))], Defaults(), lambda _: None)
            assert not (again and fed.recorded)
    feed(whole, [items(str(file))], Defaults(), lambda _: None)
    assert bodies(whole) == bodies(parts)
    assert all(commands.verify(place).ok for place in (parts, whole) if place.ledger.exists())
