"""Row ``page``: making the page of a ledger, against a cold replay of it, and its size."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.table import Row, Setting, alternate, faster, medians
from tallybook.ledger.codec import decode
from tallybook.ledger.line import LOG_NAME
from tallybook.projections.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.page import document
from tallybook.projections.surfaces.page.document import Choices, alternatives, make
from tallybook.projections.surfaces.page.film import fold_film
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAIRS = 3
SHORT = 100
"""The page is made at the asked for length, and at this part of it."""


def _seconds(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return perf_counter() - begin


def _replay(project: Project) -> object:
    return fold(PLAYBOOK, decode(open_log(project).read()))


def _film(project: Project, policies: dict[str, Any]) -> bytes:
    """Return a page that has the film and other policies alone."""
    film = fold_film(lambda position: decode(open_log(project).read(position)), policies)
    return document.assemble({"served": False}, film.part(with_texts=True))


def rows(setting: Setting) -> Iterator[Row]:
    """Measure the film, the film with the other policies, and the whole page; then their sizes."""
    for events in (max(setting.events // SHORT, 1), setting.events):
        project = Project(setting.folder / f"page-{events}")
        data.build(project.ledger, "wide" if events == setting.events else "alike", events)
        yield from _rows(project, f"{events:,} events", setting.pairs(PAIRS))


def _rows(project: Project, length: str, pairs: int) -> Iterator[Row]:
    policies = alternatives(open_log(project).head().seq)
    works: dict[str, Callable[[], object]] = {
        "the film and the life lines": lambda: _film(project, {}),
        f"the same with {len(policies)} other policies": lambda: _film(project, policies),
        "the whole page": lambda: make(project, Choices()),
    }
    replay = partial(_seconds, partial(_replay, project))
    for what, work in works.items():
        # Both are run once before, so that neither pays for the imports and the cold file.
        work()
        taken = alternate(partial(_seconds, work), replay, pairs)
        yield Row("page", f"making {what}, {length}", "a cold replay", faster(taken), *medians(taken), "s")
    log = (project.ledger / LOG_NAME).stat().st_size
    film = len(_film(project, {}))
    for what, size in (("the film and the life lines", film), ("the whole page", len(make(project, Choices())[0]))):
        yield Row("page", f"size of {what}, {length}", "the log file", (log / size,), size / 1e6, log / 1e6, "MB")
