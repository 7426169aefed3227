"""Row ``share``, power loss: the homes of machines, or a bare repository, lie on disks that are shut down.

The disks are those of the row ``pulls``: images of ext4 and XFS, shut down without a last flush of their journal.
A home has the ledger, the copy of the book and the caches. What was acknowledged is read before the power goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
import os
from pathlib import Path
from random import Random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import NamedTuple, TypeAlias

import pytest

from faults import FaultCounts, FaultOptions, NoToolError
from faults.pulls import MAKERS, make_image, mount_image, pull, write_back
from faults.share import MAX_FAILURES, NAMES, SharingTrial
from helpers.git_repositories import delete_damage, delete_locks, git
from helpers.shared_clones import Machine
from share.scenery import ENGINES, Scenery
from tallybook.ledger.errors import EXIT_DAMAGED

USUAL = 40
MOST_PAUSE_S = 2.5
"""Longer than an ``add`` and a ``sync`` at once take."""


class Disk:
    """A file system of its own, mounted on a folder."""

    def __init__(self, system: str, image: Path, place: Path, stack: ExitStack) -> None:
        """Make it and mount it; the stack unmounts it."""
        self.place = place
        self._image = image
        make_image(system, image)
        place.mkdir(exist_ok=True)
        self._mount = stack.enter_context(ExitStack())
        self._mount.enter_context(mount_image(image, place))

    def flush(self) -> None:
        """Flush everything: a loss hits a disk that has been in use for long."""
        subprocess.run(["sync", "--file-system", str(self.place)], check=True)

    def mount_again(self) -> None:
        """Mount it anew, as after a boot."""
        self._mount.close()
        self._mount.enter_context(mount_image(self._image, self.place))


_Powered: TypeAlias = "tuple[Scenery, dict[str, Disk]]"
"""Machines that share, and the disks that can lose their power."""


class Loss(NamedTuple):
    """What loses its power."""

    trial: SharingTrial
    disks: dict[str, Disk]
    added: dict[str, bool]


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill processes with their children."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _start(machine: Machine, *words: str) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return machine.start(*words, start_new_session=True, stdout=nothing, stderr=nothing)


def _lose_machine(loss: Loss) -> None:
    """Let a machine lose its power while it syncs and adds entries at once; then it goes on."""
    draw = loss.trial.draw
    name = draw.choice([*loss.disks])
    disk = loss.disks[name]
    (machine,) = [machine for machine in loss.trial.scenery.machines if machine.home.name == name]
    until = time.monotonic() + draw.random() * MOST_PAUSE_S
    running = {"": _start(machine, "sync")}
    while time.monotonic() < until:
        if all(process.poll() is not None for text, process in running.items() if text):
            text = f"Entry {len(loss.added)} of {name}"
            loss.added[text] = False
            running[text] = _start(machine, "add", text)
        time.sleep(0.01)
    if draw.random() < 1 / 2:
        for log in disk.place.rglob("events.jsonl"):
            write_back(log, draw, disk.place / "other")
    for text, process in running.items():
        if text and process.poll() == 0:
            loss.added[text] = True
    pull(disk.place)
    _end([*running.values()])
    disk.mount_again()
    shown = machine.run("show", "--json")
    lost = [
        text for text, is_given in loss.added.items() if is_given and f" of {name}" in text and text not in shown.out
    ]
    again = machine.run("sync")
    loss.trial.problems += [f"lost by {name}: {text}" for text in lost]
    loss.trial.problems += [f"{name} after a loss: {answer.err}" for answer in (shown, again) if answer.code]


DAMAGE = re.compile(
    r"object file \S+ is empty|is corrupt|repository corruption|bad (tree )?object|unable to unpack|not our ref 0{40}"
)
"""What git says of a repository whose objects are missing, empty or changed, or whose reference has no content."""


def _lose_remote(loss: Loss) -> None:
    """Let git's bare repository lose its power during a sync; its operator does what the page of engines says.

    A lock file that is left makes the book read-only, and empty objects make it damaged; the answer of a sync says so.
    """
    trial, remote = loss.trial, loss.trial.scenery.engine
    syncing = _start(trial.draw.choice(trial.scenery.machines), "sync", "--limit", "10")
    time.sleep(trial.draw.random() * MOST_PAUSE_S)
    pull(remote)
    syncing.wait()
    loss.disks["remote"].mount_again()
    for machine in trial.scenery.machines:
        answer = machine.run("sync")
        damaged = DAMAGE.search(answer.err) is not None
        locked = ".lock" in answer.err
        if damaged or locked:
            delete_locks(remote)
            trial.outcomes["left locks"] += not damaged
        if damaged:
            delete_damage(remote, remote.stem)
            trial.outcomes["repairs"] += 1
        elif not locked and answer.code not in {0, EXIT_DAMAGED}:
            trial.problems.append(f"{machine.home.name} after a loss: {answer.err}")
        if damaged and git(remote, "config", "--get", "--default", "", "core.fsync"):
            trial.problems.append(f"damaged although it flushes: {answer.err}")


@contextmanager
def _remote(engine: str, folder: Path, stack: ExitStack, *, system: str, fsync: str) -> Iterator[_Powered]:
    """Move git's bare repository to a disk of its own."""
    with ENGINES[engine](folder, NAMES) as scenery:
        remote: Path = scenery.engine
        saved = remote.rename(folder / "saved")
        disk = Disk(system, folder / "remote.img", remote, stack)
        shutil.copytree(saved, remote, dirs_exist_ok=True)
        if fsync:
            git(remote, "config", "core.fsync", fsync)
        yield scenery, {"remote": disk}
        stack.close()


@contextmanager
def _homes(engine: str, folder: Path, stack: ExitStack) -> Iterator[_Powered]:
    """Give two machines homes on disks of their own; the third keeps its power."""
    disks = {
        name: Disk(system, folder / f"{name}.img", folder / name, stack)
        for name, system in zip(NAMES, MAKERS, strict=False)
    }
    with ENGINES[engine](folder, NAMES) as scenery:
        yield scenery, disks


LOSSES: dict[str, tuple[str, Callable[..., AbstractContextManager[_Powered]], Callable[[Loss], None]]] = {
    "git: power loss of machines": ("git", _homes, _lose_machine),
    "postgres: power loss of machines": ("postgres", _homes, _lose_machine),
    **{
        f"git: power loss of a bare repository, {system}, {how}": (
            "git",
            partial(_remote, system=system, fsync=fsync),
            _lose_remote,
        )
        for system in MAKERS
        for how, fsync in (("git's default", ""), ("core.fsync = all", "all"))
    },
}
"""Name of a loss → its engine, what gives disks, and what makes it."""


def _finish(loss: Loss) -> tuple[dict[str, int], list[str]]:
    """Compare the machines as in every row, and count the entries that were added."""
    counts, problems = loss.trial.finish()
    texts = [text for text, _, _ in loss.trial.scenery.machines[0].entries().values()]
    lost = [text for text, is_given in loss.added.items() if is_given and text not in texts]
    doubled = [text for text in loss.added if texts.count(text) > 1]
    counts["acknowledged"] += sum(loss.added.values())
    counts["lost"] += len(lost)
    counts["doubled"] += len(doubled)
    problems += [f"lost: {text}" for text in lost] + [f"doubled: {text}" for text in doubled]
    return {**counts, "refused": len(problems)}, problems


def suffer(name: str, count: int, setting: FaultOptions) -> FaultCounts:
    """Let the power go so many times, each time after every machine has recorded ratings, and compare the machines."""
    engine, give_disks, lose = LOSSES[name]
    draw = Random(setting.seed)  # noqa: S311 - the same seed is to draw the same losses
    with tempfile.TemporaryDirectory(prefix="share-", dir=setting.folder) as text, ExitStack() as stack:
        folder = setting.folder / text
        folder.chmod(0o755)
        try:
            with give_disks(engine, folder, stack) as (scenery, disks):
                loss = Loss(SharingTrial(scenery, draw), disks, {})
                for disk in disks.values():
                    disk.flush()
                for _ in range(count):
                    for machine in scenery.machines:
                        loss.trial.record(machine)
                    lose(loss)
                    draw.choice(scenery.machines).run("sync")
                    loss.trial.number += 1
                counts, problems = _finish(loss)
        except pytest.skip.Exception as missing:
            raise NoToolError(f"share: {missing}") from missing
    return FaultCounts(
        "share", name, loss.trial.number, counts, loss.trial.describe_outcomes(), tuple(problems[:MAX_FAILURES])
    )


def rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Yield a tally for each loss."""
    for name in LOSSES:
        if setting.only in name:
            yield suffer(name, setting.times(USUAL), setting)
