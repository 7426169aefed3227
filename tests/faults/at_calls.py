"""Rows ``kills-at-calls`` and ``errors-at-calls``: a command ends, or one call of it fails, at each of its calls.

What must hold afterwards is the same: what was acknowledged is there once, a batch is there whole or not at all,
``verify`` finds nothing, the next command works, and ``replay --check`` agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
import os
from pathlib import Path
import re
import signal
import tempfile
from typing import NamedTuple
from unittest.mock import patch

from faults import FaultCounts, FaultOptions, NoToolError
from faults.scenes import CHANGING, GIVEN, KILL, SCENES, SHORT, Fault, Staged, SystemCall, here, why_not
from helpers.commands import CommandResult
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import EXIT_BAD_INPUT, EXIT_NO, EXIT_NOT_WRITTEN
from tallybook.ledger.events import LedgerOpened, LogRecovered
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace.project import Project

HEADINGS = ("acknowledged", "lost", "doubled", "believed", "refused", "answered yes", "answered no")
BROKEN = HEADINGS[1:5]
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EINTR")
UNCONFIRMED = ERRORS[:3]
"""Errors behind which a flush has confirmed nothing; behind the last it is asked again, as it must be."""
FLUSHES = ("fdatasync", "fsync")
WRITES = ("write", "pwrite64")
NEXT = "Next"
MAX_FAILURES = 20


def facts(project: Project, hidden: str = "") -> list[tuple[str, ...]]:
    """Return the facts of a ledger, batch by batch; its opening and its sealed ranges add nothing to the playbook.

    Args:
        project: Whose ledger.
        hidden: What a text holds that counts as taken out, whether it is yet or not; empty for none.
    """
    text = re.compile(rf"'[^']*{re.escape(hidden)}[^']*'" if hidden else "(?!)")
    told = (
        tuple(
            text.sub("None", repr(event))
            for event in batch.events
            if not isinstance(event, LedgerOpened | LogRecovered)
        )
        for batch in decode(open_log(project).read())
    )
    return [some for some in told if some]


def go_on(project: Project) -> list[str]:
    """Verify a project, append to it, and compare its file with its ledger; return the refusals."""
    # At first the file may be older than the ledger, or not there: no more than that.
    steps = ((("verify",), {0, EXIT_NO}), (("add", NEXT), {0}), (("verify",), {0}), (("replay", "--check"), {0}))
    answers = [(words, codes, here(project, *words)) for words, codes in steps]
    return [
        f"{' '.join(words)}: exit {answer.code}, {answer.out.strip()} {answer.err.strip()}"
        for words, codes, answer in answers
        if answer.code not in codes
    ]


def find_files_with(project: Project, text: str) -> list[Path]:
    """Return the files of a project that hold a text."""
    files = (path for path in project.root.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


class InterruptionResult(NamedTuple):
    """The result of one interrupted command."""

    fault: Fault
    answer: CommandResult
    counts: dict[str, int]
    problems: list[str]


class SceneTrial:
    """A scene with its ledger's facts before its command and after it."""

    def __init__(self, name: str, folder: Path) -> None:
        """Play the scene once, undisturbed and followed by the next command.

        Raises:
            AssertionError: All is not well even then.
        """
        self.scene = SCENES[name]
        self.staged = Staged(self.scene, folder)
        self._before = facts(self.staged.kept, self.scene.takes_out)
        # The next command takes in what was spooled, so that this is all that the scene records.
        refused = go_on(self.staged.project)
        if refused:
            raise AssertionError(f"{name}: not whole although nothing was made to fail: {refused}")
        self._whole = facts(self.staged.project, self.scene.takes_out)[:-1]

    def suffer(self, fault: Fault) -> InterruptionResult:
        """Interrupt the command once, and check the result."""
        answer = self.staged.play(fault)
        wrong = unclear(fault, answer, is_silent=self.scene.silent)
        is_written = self.scene.held or self.scene.words[0] == "replay"
        if (
            answer.code == 0
            and not self.scene.silent
            and fault.how in UNCONFIRMED
            and fault.name in (FLUSHES if is_written else FLUSHES[:1])
        ):
            # What the cache holds reads well for now: only the answer shows that the disk would not confirm it.
            wrong.append("a success that no disk confirmed")
        if answer.code == 0 and self.scene.words[0] == "replay":
            drift = here(self.staged.project, "replay", "--check")
            wrong += [f"says that it is written, and: {drift.err}"] if drift.code else []
        stands = facts(self.staged.project, self.scene.takes_out)
        if "nothing was recorded" in answer.err and len(self._before) < len(self._whole) == len(stands):
            wrong.append("it says that nothing was recorded, and it was")
        counts, stood, broken = self._judged(answer)
        if fault.how == KILL and stood != self._whole[: len(stood)]:
            wrong.append(f"batches in another order: {stood[len(self._before) :]}")
        return InterruptionResult(fault, answer, counts, wrong + broken)

    def _judged(self, answer: CommandResult) -> tuple[dict[str, int], list[tuple[str, ...]], list[str]]:
        acknowledged = not self.scene.silent and answer.out.endswith("\n") and answer.code in {0, -signal.SIGKILL}
        due = Counter(self._whole if acknowledged else self._before)
        known = Counter(self._whole)
        refused = go_on(self.staged.project)
        *stood, last = facts(self.staged.project, self.scene.takes_out) or [("nothing",)]
        if f"text={NEXT!r}" not in last[0]:
            stood.append(last)
        found = Counter(stood)
        numbers = (
            due.total(),
            (due - found).total(),
            sum((found - known)[some] for some in known),
            sum(number for some, number in found.items() if some not in known),
            len(refused),
            int(acknowledged),
            int(answer.code == EXIT_NOT_WRITTEN),
        )
        counts = dict(zip(HEADINGS, numbers, strict=True))
        wrong = [f"{heading}: {counts[heading]}" for heading in BROKEN[:3] if counts[heading]] + refused
        if self.scene.takes_out and stood == self._whole:
            wrong += [
                f"{path} still holds the text" for path in find_files_with(self.staged.project, self.scene.takes_out)
            ]
        return counts, stood, wrong


def unclear(fault: Fault, answer: CommandResult, *, is_silent: bool = False) -> list[str]:
    """Return the fault of an answer by itself: neither a success nor one clear line and its exit code.

    A hook, which is silent, ends with 0 beside its line.
    """
    if fault.how == KILL:
        return [] if answer.code == -signal.SIGKILL else [f"was not killed: {answer}"]
    unread = rf"{GIVEN}: cannot be read|is not a folder that you may read"
    is_input = answer.code == EXIT_BAD_INPUT and re.search(unread, answer.err) is not None
    # What could not be taken out of a file is listed, and is no success; nor is a part of what was owed.
    is_listed = answer.code == EXIT_NOT_WRITTEN and "not erased: " in answer.out
    is_part = answer.code == EXIT_NOT_WRITTEN and "the rest stays pending" in answer.err
    complaints = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    is_told = complaints != [] if is_silent else answer.code != 0 and not is_listed
    faults = {
        "an exit code that says something else": answer.code not in {0, EXIT_NOT_WRITTEN} and not is_input,
        "its insides": "Traceback" in answer.out + answer.err,
        "not one line": len(complaints) != is_told,
        "a line of somebody else's": not all(line.startswith("tallybook: ") for line in complaints),
        "an answer beside an error": answer.code != 0 and answer.out != "" and not (is_listed or is_part),
        "a success that takes itself back": answer.code == 0
        and not is_silent
        and any(said in answer.err for said in ("nothing was recorded", "unknown whether it was recorded")),
    }
    return [f"{what}: {answer}" for what, is_so in faults.items() if is_so]


def kills(calls: Sequence[SystemCall]) -> list[Fault]:
    """Return a kill at each call."""
    return [Fault(*call, KILL) for call in calls]


def errors(calls: Sequence[SystemCall]) -> list[Fault]:
    """Return each error at each call that changes something, and half a write at each write.

    Most calls only read or open: at those the errors take turns.
    """
    found = []
    for index, call in enumerate(calls):
        all_of_them = call.name in CHANGING and call.name != "openat"
        hows = ERRORS if all_of_them else ERRORS[index % len(ERRORS) :][:1]
        found += [Fault(*call, how) for how in (*hows, *([SHORT] if call.name in WRITES else []))]
    return found


def select_evenly(faults: Sequence[Fault], count: int | None) -> list[Fault]:
    """Return so many of the faults, evenly spread; all of them if there are no more, or for None."""
    if count is None or count >= len(faults):
        return list(faults)
    return [faults[index * len(faults) // count] for index in range(count)]


def suffer(
    name: str, faults: Callable[[Sequence[SystemCall]], list[Fault]], setting: FaultOptions
) -> Iterator[InterruptionResult]:
    """Play a scene with one call after another interrupted, and yield each result.

    Each scene has a home of its own: a hook looks there for transcripts of sessions, and must not find another scene's.
    """
    with (
        tempfile.TemporaryDirectory(prefix="scene-", dir=setting.folder) as folder,
        patch.dict(os.environ, HOME=f"{folder}/home"),
    ):
        trial = SceneTrial(name, Path(folder))
        count = None if setting.count is None else -(-setting.count // len(SCENES))
        chosen = select_evenly(faults(trial.staged.calls), count)
        for fault in chosen:
            yield trial.suffer(fault)


def _rows(
    row: str, faults: Callable[[Sequence[SystemCall]], list[Fault]], setting: FaultOptions
) -> Iterator[FaultCounts]:
    """Yield a tally for each scene, or raise NoToolError where calls cannot be interrupted."""
    if why_not():
        raise NoToolError(f"{row}: {why_not()}")
    for name in (name for name in SCENES if setting.only in name):
        outcomes = list(suffer(name, faults, setting))
        counts = {heading: sum(outcome.counts[heading] for outcome in outcomes) for heading in HEADINGS}
        wrong = [f"{outcome.fault}: {problem}" for outcome in outcomes for problem in outcome.problems]
        yield FaultCounts(row, name, len(outcomes), counts, "", tuple(wrong[:MAX_FAILURES]))


def kill_rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Yield a tally for each scene whose command was killed at its calls."""
    return _rows("kills-at-calls", kills, setting)


def error_rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Yield a tally for each scene whose calls failed, one at a time."""
    return _rows("errors-at-calls", errors, setting)
