"""Rows ``replay``, ``replay-different`` and ``memory``: the time and the memory of a cold replay."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import TYPE_CHECKING

from benchmarks.lengths import LONG
from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, figure, medians
from benchmarks.worker import once

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAIRS = 5
MEMORY_PAIRS = 3
READERS = {"json-bytes": "as bytes", "json-text": "as text"}


def ledger(setting: Setting, kind: str, events: int) -> Path:
    """Return the folder of a ledger, made unless it exists."""
    folder = setting.folder / f"{kind}-{events}"
    once("build", folder, kind, events)
    return folder


def _note(trial: dict[str, float], reader: str, peaks: tuple[float, float]) -> str:
    """Return a note on the input of json.loads, and on the greatest memory of either process."""
    seconds = ", ".join(f"{READERS[name]} {figure(each)} s" for name, each in trial.items())
    said = f"json.loads is given the lines {READERS[reader]}, the faster way here ({seconds})"
    if any(map(isnan, peaks)):
        return said
    return (
        f"{said}; peak memory {figure(peaks[0])} MiB, json.loads in a process that loads as much {figure(peaks[1])} MiB"
    )


def _row(setting: Setting, name: str, kind: str, what: str) -> Row:
    """Measure a replay against ``json.loads`` over the same lines, each pass in a fresh process."""
    folder = ledger(setting, kind, setting.events)
    # Twice each, and the better one counts: a guess on a busy machine must not favour us.
    trial = {reader: min(once(reader, folder)["seconds"] for _ in range(2)) for reader in READERS}
    reader = min(trial, key=trial.__getitem__)
    answers: dict[str, list[dict[str, float]]] = {"replay": [], reader: []}

    def measure(job: str) -> float:
        answers[job].append(once(job, folder))
        return answers[job][-1]["seconds"]

    taken = alternate(partial(measure, "replay"), partial(measure, reader), setting.pairs(PAIRS))
    ours, theirs = ([answer["peak_mib"] for answer in answers[job]] for job in ("replay", reader))
    note = _note(trial, reader, medians(zip(ours, theirs, strict=True)))
    what = f"{what}, {int(answers['replay'][0]['events']):,} events"
    against = "json.loads alone over the same lines"
    return Row(name, what, against, faster(taken), *medians(taken), "s", note)


def rows(setting: Setting) -> Iterator[Row]:
    """Measure the replay of ratings as the reflector records them."""
    yield _row(setting, "replay", "alike", "cold replay, chain verified")


def different(setting: Setting) -> Iterator[Row]:
    """Measure the replay of a ledger without a repeated rating or text: no line can be remembered."""
    yield _row(setting, "replay-different", "different", "the same, every body different")


def memory(setting: Setting) -> Iterator[Row]:
    """Measure the peak of a replay at a tenth of the length, at the whole, and at ten times the length.

    Raises:
        NoRivalError: The system does not report a process's memory.
    """
    lengths = sorted({max(setting.events // LONG, 1), setting.events, setting.events * LONG})
    shortest, *longer = [ledger(setting, "alike", length) for length in lengths]
    if isnan(once("replay", shortest)["peak_mib"]):
        raise NoRivalError("memory: the system does not say how much memory a process held")
    for folder in longer:
        yield _peaks(setting, folder, shortest)


def _peaks(setting: Setting, longer: Path, shorter: Path) -> Row:
    """Measure the peak of a replay against that of a shorter one, each in a fresh process."""
    answers: dict[Path, list[dict[str, float]]] = {longer: [], shorter: []}

    def peak(folder: Path) -> float:
        answers[folder].append(once("replay", folder))
        return answers[folder][-1]["peak_mib"]

    taken = alternate(partial(peak, longer), partial(peak, shorter), setting.pairs(MEMORY_PAIRS))
    ratios = tuple(ours / theirs for ours, theirs in taken)
    what, against = (f"peak memory of a replay of {int(told[0]['events']):,} events" for told in answers.values())
    second = max(answer["second_mib"] for answer in answers[longer])
    note = f"the process that proves a long log beside it held at most {figure(second)} MiB, shared pages counted"
    return Row("memory", what, against, ratios, *medians(taken), "MiB", note if second else "")
