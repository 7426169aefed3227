"""Growth: the cost of each operation as events, entries, writers and years grow, with a picture.

``python -m tests.benchmarks.growth [--write]`` measures four sizes of each; ``--write`` draws ``growth.svg`` here.
"""

from __future__ import annotations

import argparse
from functools import partial
import json
import os
from pathlib import Path
from statistics import median
import sys
import tempfile
from time import perf_counter
from typing import TYPE_CHECKING

import attrs

from benchmarks import crowd, data
from benchmarks.append import appended
from benchmarks.commands import whole_process
from benchmarks.crowd import RATING
from benchmarks.worker import once
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

EVENTS = (1_000, 10_000, 100_000, 1_000_000)
ENTRIES = (20, 200, 2_000, 20_000)
WRITERS = (1, 4, 16, 64)
MONTHS = (1, 3, 12, 36)
RATINGS = 50
SESSIONS_A_MONTH = 3_000
ENTRIES_EVENTS = 100_000
REPEATS = 5
MILLISECONDS = 1_000
PICTURE = Path(__file__).with_name("growth.svg")


@attrs.frozen
class Curve:
    """The cost of one operation as one quantity grows.

    Attributes:
        panel: What grows.
        what: The operation.
        sizes: Four sizes.
        costs: Milliseconds at each, the median of REPEATS.
    """

    panel: str
    what: str
    sizes: tuple[int, ...]
    costs: tuple[float, ...]


def _median(run: Callable[[], float]) -> float:
    run()
    return median(run() for _ in range(REPEATS)) * MILLISECONDS


def _timed(job: Callable[[], object]) -> float:
    begin = perf_counter()
    job()
    return perf_counter() - begin


def operations(project: Project, events: int) -> Mapping[str, Callable[[], float]]:
    """Return the operations on a ledger → a function that runs one and returns its seconds."""
    log = JsonlLog(project.ledger)
    process = partial(whole_process, project)
    return {
        "one rating appended, by a process that stays": lambda: _timed(lambda: appended(log, [RATING])),
        "`rate`, whole process": process(("rate", "kpt_007", "helpful")),
        "`show`, whole process": process(("show", "--json")),
        "`show --at`, whole process": process(("show", "--json", "--at", str(events // 2))),
        "`why`, whole process": process(("why", "kpt_007", "--json")),
        "cold replay": lambda: once("replay", project.ledger)["seconds"],
    }


def _by_size(panel: str, made: Mapping[int, tuple[Project, int]]) -> Iterator[Curve]:
    """Yield a curve for each operation over projects by their size."""
    costs: dict[str, list[float]] = {}
    for project, events in made.values():
        commands.replay(project)
        for what, run in operations(project, events).items():
            costs.setdefault(what, []).append(_median(run))
    for what, found in costs.items():
        yield Curve(panel, what, tuple(made), tuple(found))


def by_events(folder: Path, events: Sequence[int] = EVENTS) -> Iterator[Curve]:
    """Measure ledgers of 200 entries by their length."""
    made = {}
    for number in events:
        made[number] = (Project(folder / f"events-{number}"), number)
        once("build", made[number][0].ledger, "alike", number)
    yield from _by_size("events", made)


def by_entries(folder: Path, entries: Sequence[int] = ENTRIES, events: int = ENTRIES_EVENTS) -> Iterator[Curve]:
    """Measure ledgers of one length by the number of entries that they begin with."""
    made = {}
    for number in entries:
        made[number] = (Project(folder / f"entries-{number}"), events)
        data.begin(made[number][0].ledger, number, data.repeating(number), max(events, 2 * number))
    yield from _by_size("entries", made)


def by_writers(folder: Path, writers: Sequence[int] = WRITERS, ratings: int = RATINGS) -> Iterator[Curve]:
    """Measure the seconds of a rating by the number of processes that append at once."""
    taken = [[crowd.measured(folder, number, ratings, "tallybook") for _ in range(REPEATS)] for number in writers]
    for what, side in (("a rating, of all that are appended", 0), ("within which 99 of 100 ratings are durable", 1)):
        costs = tuple(median(times[side] for times in found) * MILLISECONDS for found in taken)
        yield Curve("writers", what, tuple(writers), costs)


def by_months(folder: Path, months: Sequence[int] = MONTHS, sessions: int = SESSIONS_A_MONTH) -> Iterator[Curve]:
    """Measure a month's scores, of a ledger of 100 sessions a day, by its length in months."""
    warm, cold = [], []
    for number in months:
        project = Project(folder / f"months-{number}")
        once("measured", project.ledger, number * sessions)
        cold.append(_timed(whole_process(project, ("score", "--monthly", "--json"))) * MILLISECONDS)
        warm.append(_median(whole_process(project, ("score", "--monthly", "--json"))))
    yield Curve("months", "`score --monthly`, whole process", tuple(months), tuple(warm))
    yield Curve("months", "the same without a cache, once", tuple(months), tuple(cold))


PANELS: dict[str, Callable[[Path], Iterator[Curve]]] = {
    "events": by_events,
    "entries": by_entries,
    "writers": by_writers,
    "months": by_months,
}
"""What grows → what measures it."""


def as_markdown(curve: Curve) -> str:
    """Return a curve as a line of Markdown."""
    points = "; ".join(f"{size:,}: {cost:,.2f}" for size, cost in zip(curve.sizes, curve.costs, strict=True))
    return f"- {curve.panel}, {curve.what}, ms: {points}"


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw the picture: a panel for each quantity that grows, both axes by powers of ten.

    Raises:
        ImportError: Matplotlib, of the group ``bench``, is not installed.
    """
    from matplotlib import pyplot as plt  # noqa: PLC0415 - an extra, slow to load

    panels = list(dict.fromkeys(curve.panel for curve in curves))
    # The same figures give the same bytes, and letters stay letters.
    plt.rcParams |= {"svg.hashsalt": "tallybook", "svg.fonttype": "none", "font.size": 8}
    figure, axes = plt.subplots(-(-len(panels) // 2), 2, figsize=(10, 7), squeeze=False)
    for panel, axis in zip(panels, axes.flat, strict=False):
        for curve in curves:
            if curve.panel == panel:
                axis.plot(curve.sizes, curve.costs, marker="o", label=curve.what.replace("`", ""))
        axis.set(xscale="log", yscale="log", xlabel=panel, ylabel="milliseconds")
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main(words: Sequence[str]) -> None:
    """Measure, print, and draw on request."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.growth", description=__doc__)
    parser.add_argument("panels", nargs="*", metavar="PANEL", help=f"one of {', '.join(PANELS)}; all without one")
    parser.add_argument("--write", action="store_true", help=f"draw {PICTURE.name}")
    parser.add_argument("--from", dest="given", type=Path, metavar="FILE", help="draw what was measured before")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--folder", type=Path, default=Path(), help="where files are made, on the disk to be measured")
    asked = parser.parse_args(words)
    given = json.loads(asked.given.read_text(encoding="utf-8")) if asked.given else []
    curves = [Curve(**fields) for fields in given]
    with tempfile.TemporaryDirectory(prefix=".benchmarks-", dir=asked.folder) as folder:
        os.environ[caches.VARIABLE] = str(Path(folder) / "caches")
        (Path(folder) / ".gitignore").write_text("*\n", encoding="ascii")
        for panel in () if given else asked.panels or PANELS:
            print(f"measuring {panel}", file=sys.stderr, flush=True)
            curves += PANELS[panel](Path(folder).resolve())
    print(*map(as_markdown, curves), sep="\n")
    if asked.json:
        asked.json.write_text(json.dumps([attrs.asdict(curve) for curve in curves], indent=2) + "\n", encoding="utf-8")
    if asked.write:
        draw(curves, PICTURE)


if __name__ == "__main__":
    main(sys.argv[1:])
