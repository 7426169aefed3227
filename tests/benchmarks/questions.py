"""Row ``questions``: the cost of questions about the past of a long ledger, against one cold replay of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import data
from benchmarks.commands import whole_process
from benchmarks.table import Row, Setting, alternate, faster, medians
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIRS = 3
ENTRY = "kpt_007"
QUESTIONS = {
    "show --at, in the middle": ("show", "--at", "{middle}"),
    "show --at, of a date": ("show", "--at", "{date}"),
    "why": ("why", ENTRY),
    "diff of two moments": ("diff", "{middle}", "{late}"),
    "blame": ("show", "--last-change"),
    "graveyard": ("show", "--gone"),
    "bisect": ("bisect", f"{ENTRY}.harmful > 1000000"),
    "what-if under another policy": ("what-if", "--floor", "5"),
    "what-if without a batch": ("what-if", "--without", "{middle}"),
    "log -n 5": ("log", "-n", "5"),
    "verify": ("verify",),
}
"""What is asked → how it is typed; ``bisect`` never finds it, so that it looks at all of history."""


def rows(setting: Setting) -> Iterator[Row]:
    """Measure each question as a whole process against one that replays everything."""
    project = Project(setting.folder / "questions")
    data.build(project.ledger, "wide", setting.events)
    replay = whole_process(project, ("replay", "--output", str(setting.folder / "replayed.json")))
    places = {"middle": setting.events // 2, "late": setting.events * 9 // 10, "date": "2025-10-12"}
    for what, words in QUESTIONS.items():
        ours = whole_process(project, tuple(word.format(**places) for word in (*words, "--json")))
        taken = alternate(ours, replay, setting.pairs(PAIRS))
        told = f"{what}, whole process, {setting.events:,} events, {data.WIDE:,} entries"
        yield Row("questions", told, "a cold replay, whole process", faster(taken), *medians(taken), "s")
