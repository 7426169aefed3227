"""Row ``share``: machines that share a playbook, and syncs and engines that are killed, stopped, rolled back or full.

Each fault hits between two rounds in which every machine records ratings. In the end every machine syncs: each
acknowledged rating counts once, all copies of the book are the same bytes, all playbooks the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
import json
import os
from pathlib import Path
from random import Random
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from faults import FaultCounts, FaultOptions, NoToolError
from helpers.git_repositories import git
from helpers.postgres_front import Front
from helpers.shared_clones import Machine
from share.scenery import ENGINES, Scenery
from tallybook.ledger.errors import EXIT_DAMAGED

NAMES = ("anna", "ben", "cleo")
USUAL = 40
RATINGS = 1_000
"""Ratings that a machine records in each round, in one batch."""
HEADINGS = ("acknowledged", "lost", "doubled", "believed", "refused")
MAX_FAILURES = 20
MAX_TRIES = 40
MOST_PAUSE_S = 0.9
LIMIT_S = "4"
MOST_CUT_S = 2.0
CALLS = ("write", "pwrite64", "rename", "mkdir", "rmdir", "link", "unlink", "ftruncate", "fsync", "fdatasync", "fchmod")
"""System calls of a sync that change something; a deleted cache, which was moved away before, counts once."""
PRIVATE = "Ask Petra Zwiebel, number"
SMALL_BYTES = 256 * 1024 * 1024
"""More than a run of 40 faults needs, and small enough for memory when it is filled."""


class SharingTrial:
    """Machines that share, and what they acknowledged.

    Attributes:
        scenery: The machines and their engine.
        draw: Draws machines and moments.
        given: Name of a machine → how many of its ratings were acknowledged.
        number: How many faults were made.
        problems: What was wrong right after a fault.
        note: A note on the conditions; empty without one.
        outcomes: How often syncs during a fault ended how.
    """

    def __init__(self, scenery: Scenery, draw: Random) -> None:
        """Let all machines join one book, each with an entry of its own."""
        self.scenery = scenery
        self.draw = draw
        self.number = 0
        self.problems: list[str] = []
        self.note = ""
        self.outcomes: Counter[str] = Counter()
        scenery.share()
        self.given = dict.fromkeys((machine.home.name for machine in scenery.machines), 0)
        for machine in scenery.machines:
            machine.do("add", f"by {machine.home.name}")

    def record(self, machine: Machine) -> None:
        """Record ratings of the machine's own entry."""
        # Its name is asked each time: a book that lost its end can have it under another one.
        text = f"by {machine.home.name}"
        (name,) = [name for name, entry in machine.entries().items() if entry[0] == text]
        payload = {"evaluations": [{"name": name, "rating": "helpful"}] * RATINGS}
        if machine.run("record", given=json.dumps(payload)).code == 0:
            self.given[machine.home.name] += RATINGS

    def describe_outcomes(self) -> str:
        """Return the outcomes of syncs with their numbers."""
        return ", ".join(f"{number} {what}" for what, number in sorted(self.outcomes.items()))

    def finish(self) -> tuple[dict[str, int], list[str]]:
        """Sync until nothing is pending, and compare; return the counts and what was wrong."""
        problems = [*self.problems, *(problem for machine in self.scenery.machines for problem in _settle(machine))]
        for machine in self.scenery.machines:
            problems += _settle(machine)
        playbooks = [machine.entries() for machine in self.scenery.machines]
        differing = len({machine.replica() for machine in self.scenery.machines}) - 1
        differing += sum(playbook != playbooks[0] for playbook in playbooks)
        counted = {text: helpful for text, helpful, _ in playbooks[0].values()}
        excess = [counted.get(f"by {name}", 0) - number for name, number in self.given.items()]
        lost, doubled = -sum(min(number, 0) for number in excess), sum(max(number, 0) for number in excess)
        problems += [f"lost {lost}, doubled {doubled}: {counted} where {self.given}"] if lost or doubled else []
        problems += [f"{differing} machines differ"] if differing else []
        problems += [
            f"{answer.err}" for answer in (machine.run("verify") for machine in self.scenery.machines) if answer.code
        ]
        numbers = (sum(self.given.values()), lost, doubled, differing, len(problems))
        return dict(zip(HEADINGS, numbers, strict=True)), problems


def _settle(machine: Machine) -> list[str]:
    """Sync until it succeeds and nothing is pending; return why it does not."""
    why = ""
    for _ in range(MAX_TRIES):
        answer = machine.run("sync", "--json")
        if answer.code == 0 and not json.loads(answer.out)["pending"]:
            return []
        why = answer.err or answer.out
        if answer.code == EXIT_DAMAGED:
            # Another machine appended where the engine had lost its end: the answer names this command.
            why += machine.run("sync", "--rejoin").err
        time.sleep(0.5)
    return [f"{machine.home.name} does not come to an end: {why}"]


# Faults


def _kill_at_random(trial: SharingTrial, machine: Machine) -> None:
    """Kill a sync and its children at any moment."""
    nothing = subprocess.DEVNULL
    process = machine.start("sync", start_new_session=True, stdout=nothing, stderr=nothing)
    with suppress(subprocess.TimeoutExpired):
        process.wait(trial.draw.random() * MOST_PAUSE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_STRACE = ("strace", "-qq", "-e", f"trace={','.join(CALLS)}")


class _Killing:
    """A machine before a sync that takes in ratings, a text and a redaction, and publishes ratings.

    Attributes:
        machine: The machine.
        calls: The calls of the sync that change something, each with its number among those of its name.
        told: What the sync changed, as the next command tells it.
        entries: The playbook after it.
    """

    def __init__(self, trial: SharingTrial, folder: Path) -> None:
        """Play the sync once, undisturbed."""
        self.machine, other, *_rest = trial.scenery.machines
        self._places = {self.machine.home: folder / "home", trial.scenery.engine: folder / "engine"}
        other.do("add", f"{PRIVATE} 1.")
        for machine in (other, self.machine):
            trial.record(machine)
            machine.do("sync")
        for machine in trial.scenery.machines:
            trial.record(machine)
        other.do("redact", "--text", f"{PRIVATE} 1.", "--yes", "--expect", "1", "--reason", "a name")
        other.do("add", f"{PRIVATE} 2.")
        other.do("sync")
        _read_told(self.machine.at_terminal("show"))
        for place, saved in self._places.items():
            shutil.copytree(place, saved, symlinks=True)
        traced = folder / "trace"
        _run_by(self.machine, [*_STRACE, "-o", str(traced)])
        seen: Counter[str] = Counter()
        self.calls: list[tuple[str, int]] = []
        for line in traced.read_text(errors="replace").splitlines():
            name = line.partition("(")[0]
            if name in CALLS:
                seen[name] += 1
                self.calls.append((name, seen[name]))
        self.told = _read_told(self.machine.at_terminal("show"))
        self.entries = self.machine.entries()

    def kill(self, name: str, nth: int) -> tuple[bool, list[str]]:
        """Kill the sync at a call, and sync again; return whether it was killed, and what is wrong then."""
        for place, saved in self._places.items():
            shutil.rmtree(place)
            shutil.copytree(saved, place, symlinks=True)
        words = [*_STRACE, "-o", os.devnull, "-e", f"inject={name}:signal=KILL:when={nth}"]
        is_killed = _run_by(self.machine, words) == -signal.SIGKILL
        lines = self.machine.at_terminal("verify")
        again = self.machine.run("sync")
        lines += self.machine.at_terminal("show")
        wrong = [line for line in lines if line.startswith("tallybook: ")] + ([again.err] if again.code else [])
        wrong += [f"told: {_read_told(lines)}"] if _read_told(lines) != self.told else []
        wrong += [f"shown: {self.machine.entries()}"] if self.machine.entries() != self.entries else []
        files = (path for path in self.machine.root.rglob("*") if path.is_file())
        wrong += [f"{path} holds a redacted text" for path in files if f"{PRIVATE} 1." in path.read_text("latin-1")]
        return is_killed, [f"killed at {name} {nth}: {problem}" for problem in wrong]


def _read_told(lines: Sequence[str]) -> list[str]:
    """Return what the lines of a terminal tell of syncs, without their times."""
    return sorted(line.split(": ", 2)[2] for line in lines if line.startswith("note: sync "))


def _kill_at_all_calls(trial: SharingTrial, folder: Path, count: int | None) -> None:
    """Kill a sync at each of the calls that change something, or at so many of them, evenly spread.

    After the next sync the playbook is what it would have been, each change was told once, and the redacted text is in
    no file.
    """
    with tempfile.TemporaryDirectory(prefix="saved-", dir=folder) as saved:
        killing = _Killing(trial, Path(saved))
        killed = 0
        step = max(len(killing.calls) // count, 1) if count else 1
        for name, nth in killing.calls[::step][:count]:
            is_killed, problems = killing.kill(name, nth)
            killed += is_killed
            trial.number += 1
            trial.problems += problems
    trial.note = f"{killed} of {trial.number} killed, {len(killing.calls)} calls in all"


def _run_by(machine: Machine, words: list[str]) -> int:
    """Sync by another command, and return its exit code."""
    return machine.start("sync", wrapper=words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()


def _stop(trial: SharingTrial, machine: Machine) -> None:
    """Stop a sync for a while as SIGSTOP does, let another machine sync meanwhile, and let it go on."""
    nothing = subprocess.DEVNULL
    process = machine.start("sync", stdout=nothing, stderr=nothing)
    time.sleep(trial.draw.random() * MOST_PAUSE_S)
    process.send_signal(signal.SIGSTOP)
    trial.draw.choice(trial.scenery.machines).run("sync", "--limit", "5")
    process.send_signal(signal.SIGCONT)
    process.wait()


def _force_back(trial: SharingTrial, machine: Machine) -> None:
    """Force the branch of the book some commits back, or delete it."""
    machine.run("sync")
    remote: Path = trial.scenery.engine
    ref = "refs/tallybook/remote"
    commits = git(remote, "rev-list", "--first-parent", ref).split()
    back = commits[min(trial.draw.randrange(1, 4), len(commits) - 1)]
    if trial.draw.random() < 1 / 4:
        git(remote, "update-ref", "-d", ref)
    else:
        git(remote, "update-ref", ref, back)


def _fill_disk(trial: SharingTrial, machine: Machine) -> None:
    """Let a sync meet a full disk, with a few bytes left."""
    filler = machine.home / "filler"
    free = shutil.disk_usage(machine.home).free
    with suppress(OSError), filler.open("wb") as file:
        file.write(b"x" * max(free - trial.draw.randrange(64) * 1024, 0))
    machine.run("sync")
    filler.unlink()


# A server is killed, its connections are reset, or it is cut from machines: silently, as when packets are dropped, or
# with every connection reset and new ones refused. What was sent during a silent cut arrives when it heals.


def _kill_server(trial: SharingTrial, machine: Machine) -> None:
    """Kill all processes of a server during a sync, and start it again; an emulated S3 has lost everything then."""
    server = trial.scenery.engine.server
    nothing = subprocess.DEVNULL
    process = machine.start("sync", "--limit", "10", stdout=nothing, stderr=nothing)
    time.sleep(trial.draw.random() * MOST_PAUSE_S)
    server.kill()
    process.wait()
    server.start()


def _roll_back(trial: SharingTrial, machine: Machine) -> None:
    """Take the last runs of the book away, or all."""
    machine.run("sync")
    trial.scenery.roll_back(
        lambda last: 0 if trial.draw.random() < 1 / 4 else max(last - trial.draw.randrange(1, 4), 0)
    )


def _reset_connection(trial: SharingTrial, machine: Machine) -> None:
    """Reset the connection of a sync after some bytes, or instead of the server's answer."""
    front = trial.scenery.engine.front
    front.answers = trial.draw.random() < 1 / 2
    front.bytes_to_reset = trial.draw.randrange(1, 20_000)
    machine.run("sync", "--limit", "5")
    front.bytes_to_reset, front.answers = None, True


@contextmanager
def _cut(front: Front, draw: Random) -> Iterator[None]:
    """Let a proxy pass on nothing for a while."""
    attribute = draw.choice(("silent", "closed"))
    setattr(front, attribute, True)
    try:
        yield
    finally:
        setattr(front, attribute, False)


def _lands(trial: SharingTrial, machine: Machine) -> bool:
    """Record ratings, sync for a while, and return whether nothing is pending; a sync out of time succeeds as well."""
    trial.record(machine)
    answer = machine.run("sync", "--json", "--limit", LIMIT_S)
    landed = answer.code == 0 and not json.loads(answer.out)["pending"]
    trial.outcomes["syncs landed" if landed else "syncs did not land"] += 1
    return landed


def _cut_machines(trial: SharingTrial, machine: Machine) -> None:
    """Cut machines during a sync from the server, and let it go on afterwards."""
    engine, draw = trial.scenery.engine, trial.draw
    nothing = subprocess.DEVNULL
    process = machine.start("sync", "--limit", LIMIT_S, stdout=nothing, stderr=nothing)
    time.sleep(draw.random())
    with _cut(engine.front, draw):
        if _lands(trial, draw.choice(trial.scenery.machines)):
            trial.problems.append("a sync landed although no server was reached")
        time.sleep(draw.random() * MOST_CUT_S)
    process.wait()


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    """Mount a small file system in memory on a folder, or raise NoToolError."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES},mode=755", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoToolError(f"share: a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


FAULTS: dict[str, tuple[str, Callable[[SharingTrial, Machine], None] | None]] = {
    "git: sync killed at random": ("git", _kill_at_random),
    "git: sync killed at its calls": ("git", None),
    "git: sync stopped": ("git", _stop),
    "git: branch forced back or deleted": ("git", _force_back),
    "git: full disk": ("git", _fill_disk),
    "postgres: sync killed at random": ("postgres", _kill_at_random),
    **{
        f"{engine}: {what}": (engine, fault)
        for engine in ("postgres", "objects")
        for what, fault in (
            ("server killed", _kill_server),
            ("connections reset", _reset_connection),
            ("machines cut from the server", _cut_machines),
            ("rolled back or emptied", _roll_back),
        )
    },
}
"""Name of a fault → its engine, and what makes it to a machine's sync; None for a kill at each of its calls."""


def _repeat(trial: SharingTrial, fault: Callable[[SharingTrial, Machine], None], rounds: Iterable[int]) -> None:
    """Make a fault again and again, each time after every machine has recorded ratings."""
    machines = trial.scenery.machines
    for _ in rounds:
        for machine in machines:
            trial.record(machine)
        fault(trial, trial.draw.choice(machines))
        trial.draw.choice(machines).run("sync")
        trial.number += 1


def suffer(name: str, count: int | None, setting: FaultOptions) -> FaultCounts:
    """Make a fault so many times, and compare the machines; for None as often as is usual, at calls at each of them.

    Raises:
        NoToolError: It cannot be made here.
    """
    engine, fault = FAULTS[name]
    if fault is None and shutil.which("strace") is None:
        raise NoToolError("share: strace is not installed")
    draw = Random(setting.seed)  # noqa: S311 - the same seed is to draw the same faults
    with tempfile.TemporaryDirectory(prefix="share-", dir=setting.folder) as text:
        folder = setting.folder / text
        folder.chmod(0o755)
        try:
            with (
                _small_disk(folder) if fault is _fill_disk else nullcontext(),
                ENGINES[engine](folder, NAMES) as scenery,
            ):
                trial = SharingTrial(scenery, draw)
                if fault is None:
                    _kill_at_all_calls(trial, folder, count)
                else:
                    _repeat(trial, fault, range(count or USUAL))
                    trial.note = trial.describe_outcomes()
                counts, problems = trial.finish()
        except pytest.skip.Exception as missing:
            raise NoToolError(f"share: {missing}") from missing
    return FaultCounts("share", name, trial.number, counts, trial.note, tuple(problems[:MAX_FAILURES]))


def rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Yield a tally for each fault."""
    for name in FAULTS:
        if setting.only in name:
            yield suffer(name, setting.count, setting)
