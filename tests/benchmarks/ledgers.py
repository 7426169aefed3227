"""Rows about ledgers: the cost of a durable rating, of a cold replay, of commands, and of questions about the past."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from math import isnan
import os
from pathlib import Path
from time import perf_counter

from benchmarks import data
from benchmarks.processes import run_once, whole_process
from benchmarks.table import BenchmarkOptions, BenchmarkRow, NotMeasuredError, alternate
from tallybook.ledger.codec import encode
from tallybook.ledger.events import PointRated
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage.disk import flush_data
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

BY = {"rater": "reflector", "session": "5f1c2f0e-7a3b-4c44-9d0e-1b2c3d4e5f60"}
RATING = encode(PointRated("kpt_007", "helpful"))
BLOCK = 200
LONG, SHORT = 10, 1_000
"""A command is measured at so many times the asked for length, and at this part of it."""
MICROSECONDS, MILLISECONDS = 1_000_000, 1_000
JSON_READERS = ("json-bytes", "json-text")
ENTRY = "kpt_007"
QUESTIONS = {
    "show --at, in the middle": ("show", "--at", "{middle}"),
    "show --at, of a date": ("show", "--at", "{date}"),
    "why": ("why", ENTRY),
    "diff of two moments": ("diff", "{middle}", "{late}"),
    "show --last-change": ("show", "--last-change"),
    "show --gone": ("show", "--gone"),
    "bisect": ("bisect", f"{ENTRY}.harmful > 1000000"),
    "what-if under another policy": ("what-if", "--floor", "5"),
    "what-if without a batch": ("what-if", "--without", "{middle}"),
    "log -n 5": ("log", "-n", "5"),
    "verify": ("verify",),
}
"""What is asked → how it is typed; ``bisect`` never finds it, so that it looks at all of history."""


def append_rating(log: JsonlLog) -> int:
    """Record a rating durably; return how many bytes it took."""
    with log.transaction() as tx:
        batch = tx.append([RATING], BY)
    return len(batch.raw) if batch is not None else 0


def _repeat(step: Callable[[], object]) -> float:
    """Return the seconds of a step, of BLOCK in a row."""
    begin = perf_counter()
    for _ in range(BLOCK):
        step()
    return (perf_counter() - begin) / BLOCK


def append(setting: BenchmarkOptions) -> Iterator[BenchmarkRow]:
    """Measure durable ratings through the library against the floor: as many bytes, written and flushed."""
    bare = setting.folder / "append.bare"
    with closing(JsonlLog(setting.folder / "append")) as log, bare.open("ab", buffering=0) as file:
        append_rating(log)
        line = b"x" * (append_rating(log) - 1) + b"\n"

        def write_and_flush() -> None:
            os.write(file.fileno(), line)
            flush_data(file.fileno())

        ours, theirs = partial(_repeat, partial(append_rating, log)), partial(_repeat, write_and_flush)
        pairs = alternate(ours, theirs, setting.pairs(15))
    against = f"os.write of as many bytes and {flush_data.__name__}"
    yield BenchmarkRow("append", "one rating, durable, by a process that stays", against, pairs, "µs", MICROSECONDS)


def _make_ledger(setting: BenchmarkOptions, kind: str, events: int) -> Path:
    folder = setting.folder / f"{kind}-{events}"
    run_once("build", folder, kind, events)
    return folder


def _compare_replay(setting: BenchmarkOptions, name: str, kind: str, what: str) -> BenchmarkRow:
    """Measure a replay against ``json.loads`` over the same lines, each pass in a fresh process."""
    folder = _make_ledger(setting, kind, setting.events)
    # Twice each, and the better one counts: a guess on a busy machine must not favour us.
    trial = {reader: min(run_once(reader, folder)["seconds"] for _ in range(2)) for reader in JSON_READERS}
    reader = min(JSON_READERS, key=trial.__getitem__)
    pairs = alternate(
        lambda: run_once("replay", folder)["seconds"], lambda: run_once(reader, folder)["seconds"], setting.pairs(5)
    )
    what = f"{what}, {setting.events:,} events"
    return BenchmarkRow(name, what, "json.loads alone over the same lines", pairs, "s")


def replay(setting: BenchmarkOptions) -> Iterator[BenchmarkRow]:
    """Measure the replay of ratings as the reflector records them."""
    yield _compare_replay(setting, "replay", "alike", "cold replay, chain verified")


def replay_different(setting: BenchmarkOptions) -> Iterator[BenchmarkRow]:
    """Measure the replay of a ledger without a repeated rating or text: no line can be remembered."""
    yield _compare_replay(setting, "replay-different", "different", "the same, every body different")


def memory(setting: BenchmarkOptions) -> Iterator[BenchmarkRow]:
    """Measure the greatest memory of a replay against that of one a tenth as long."""
    lengths = (setting.events, max(setting.events // LONG, 1))
    long, short = [_make_ledger(setting, "alike", length) for length in lengths]
    pairs = alternate(
        lambda: run_once("replay", long)["peak_mib"], lambda: run_once("replay", short)["peak_mib"], setting.pairs(3)
    )
    if isnan(pairs[0][0]):
        raise NotMeasuredError("memory: the system does not say how much memory a process held")
    what, against = (f"peak memory of a replay of {length:,} events" for length in lengths)
    yield BenchmarkRow("memory", what, against, pairs, "MiB", is_time=False)


def _append_one_more(project: Project, words: tuple[str, ...]) -> Callable[[], float]:
    """Return a function that appends a rating, which is not counted, and returns the seconds of a command after it."""
    run = whole_process(project, words)

    def measured() -> float:
        with closing(JsonlLog(project.ledger)) as log:
            append_rating(log)
        return run()

    return measured


def load(setting: BenchmarkOptions) -> Iterator[BenchmarkRow]:
    """Measure `show` and `rate` in a long ledger after one new event, against a short one."""
    lengths = (setting.events * LONG, max(setting.events // SHORT, 1))
    projects = [Project(setting.folder / f"load-{length}") for length in lengths]
    for project, length in zip(projects, lengths, strict=True):
        run_once("build", project.ledger, "alike", length)
        commands.playbook(project)
    for words in (("show", "--json"), ("rate", ENTRY, "helpful")):
        ours, theirs = (_append_one_more(project, words) for project in projects)
        ours()
        theirs()
        pairs = alternate(ours, theirs, setting.pairs(15))
        what, against = (f"`{words[0]}` after a new event, whole process, {length:,} events" for length in lengths)
        yield BenchmarkRow("load", what, against, pairs, "ms", MILLISECONDS)


def questions(setting: BenchmarkOptions) -> Iterator[BenchmarkRow]:
    """Measure each question as a whole process against one that replays everything."""
    project = Project(setting.folder / "questions")
    data.build(project.ledger, "wide", setting.events)
    replay_all = whole_process(project, ("replay", "--output", str(setting.folder / "replayed.json")))
    places = {"middle": setting.events // 2, "late": setting.events * 9 // 10, "date": "2025-10-12"}
    for what, words in QUESTIONS.items():
        ours = whole_process(project, tuple(word.format(**places) for word in (*words, "--json")))
        pairs = alternate(ours, replay_all, setting.pairs(3))
        told = f"{what}, whole process, {setting.events:,} events, {data.WIDE:,} entries"
        yield BenchmarkRow("questions", told, "a cold replay, whole process", pairs, "s")
