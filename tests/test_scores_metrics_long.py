"""The verb `score record` at length: parts, bounds, and any JSON in any order of deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.telemetry_files import AT, rows, written
from tallybook.projections.surfaces.scores import read as ingest
from tallybook.projections.surfaces.scores.cli import report_json
from tallybook.projections.surfaces.scores.read import PROBLEMS_SHOWN, Defaults, feed, items
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
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
