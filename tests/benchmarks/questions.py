"""Row ``questions``: what it takes to ask a long ledger about its past, beside one cold replay of it."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks import data
from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, medians
from projections.surfaces.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAIRS = 3
ENTRY = "kpt_007"
QUESTIONS = {
    "show --at, in the middle": ("show", "--at", "{middle}"),
    "show --at, of a date": ("show", "--at", "{date}"),
    "why": ("why", ENTRY),
    "diff of two moments": ("diff", "{middle}", "{late}"),
    "blame": ("blame",),
    "graveyard": ("graveyard",),
    "bisect": ("bisect", f"{ENTRY}.harmful > 1000000"),
    "what-if under another policy": ("what-if", "--floor", "5"),
    "what-if without a batch": ("what-if", "--without", "{middle}"),
}
"""What is asked → how it is typed; ``bisect`` never finds it, so that it looks at all of history."""


def _process(project: Project, words: tuple[str, ...]) -> Callable[[], float]:
    """Return what runs a command and says how many seconds it took, start-up included."""
    command = [str(Path(sys.executable).with_name("tallybook")), "--project", str(project.root), *words]

    def run() -> float:
        begin = perf_counter()
        done = subprocess.run(command, capture_output=True, check=False, env=os.environ)
        if done.returncode not in {0, 1}:
            raise NoRivalError(f"{command}: {done.stderr.decode()}")
        return perf_counter() - begin

    return run


def rows(setting: Setting) -> Iterator[Row]:
    """Measure each question as a whole process against one that replays everything."""
    if not Path(sys.executable).with_name("tallybook").exists():
        raise NoRivalError("questions: the command is not installed beside this Python")
    project = Project(setting.folder / "questions")
    data.build(project.ledger, "wide", setting.events)
    replay = _process(project, ("replay", "--output", str(setting.folder / "replayed.json")))
    places = {"middle": setting.events // 2, "late": setting.events * 9 // 10, "date": "2025-10-12"}
    for what, words in QUESTIONS.items():
        ours = _process(project, tuple(word.format(**places) for word in (*words, "--json")))
        taken = alternate(ours, replay, setting.pairs(PAIRS))
        told = f"{what}, whole process, {setting.events:,} events, {data.WIDE:,} entries"
        yield Row("questions", told, "a cold replay, whole process", faster(taken), *medians(taken), "s")
