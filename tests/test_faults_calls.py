"""Every failing system call of a real command: a clear line and an exit code, or a durable append."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, nullcontext
import errno
from functools import cache
import json
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ledger import disk
from ledger.codec import decode
from ledger.events import PointAdded, PointRated
from projections.surfaces import commands
from projections.surfaces.project import Project
from projections.surfaces.record import open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
HUMAN = {"rater": "human"}
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EINTR")
# One fault in so many is tried here, less than a minute in all. Every call but openat fails at least once, since it
# has four errors, and each error has its turn, since the number is odd.
SHARE = 3
CALLS = ("write", "pwrite64", "fdatasync", "fsync", "rename", "flock", "mkdir", "openat")
# Files that are renamed into place carry the process's number, a spooled one the time and an id as well, and strace
# matches calls by paths that are known before.
PID = 4242
MAIN = f"""
import os
os.getpid = lambda: {PID}
from ledger import clock
if os.environ.get("STANDING"):
    clock.utc_now = lambda: clock.moment(1_795_000_000_000_000)
    clock.new_id = lambda _: "id"
from projections.surfaces.entry import main
main()
"""
SPOOLED = "2026-11-18T110640.000000Z-id.json"
FILES = (
    *("events.jsonl", "head", "lock", "render.lock", "rendered", ".gitignore", f".rendered.{PID}.tmp"),
    *("cache", "cache/keys", "quarantine", "spool", f"spool/{SPOOLED}", f"spool/.{SPOOLED}.{PID}.tmp"),
)
RATING = '{"evaluations":[{"name":"kpt_001","rating":"helpful"}]}'
FIRST = '{"new_key_points":["Fresh"]}'
TORN = b'{"crc":"00000000","seq":4,"id":"torn'
CODES = {0, 2, 3, 4}


class Fault(NamedTuple):
    """One call that fails: its name, which of its kind, and the error."""

    call: str
    number: int
    error: str


class Answer(NamedTuple):
    """What a command came to: its exit code and what it printed."""

    code: int
    out: str
    err: str


@cache
def why_not() -> str:
    """Return why calls cannot be made to fail in this way here, nothing where they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=none", "true"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else "this system does not let strace trace a process"


def begun(root: Path) -> Project:
    """Make a project with three entries, and a rating that was acknowledged."""
    (root / ".claude").mkdir(parents=True)
    project = Project(root)
    for text in ("Use type hints", "Name things well", "Test the edges"):
        commands.add(project, text, HUMAN)
    commands.rate(project, "kpt_001", "helpful", HUMAN)
    return project


def new(root: Path) -> Project:
    """Make a project without a ledger, so that the command has to begin it."""
    (root / ".claude").mkdir(parents=True)
    return Project(root)


def torn(root: Path) -> Project:
    """Make a project whose log has a bad end, so that the command has to seal it."""
    project = begun(root)
    with (project.ledger / "events.jsonl").open("ab") as file:
        file.write(TORN)
    return project


def suspect(root: Path) -> Project:
    """Make a project where a flush has failed, so that the command has to write again what it may have lost."""
    project = begun(root)
    trace = ["-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1"]
    assert 4 == run(project, trace).code
    return project


def spooling(root: Path) -> Project:
    """Make a project where a payload waits, so that the command has to take it in and to remove its file."""
    project = begun(root)
    with held(project):
        assert commands.rate(project, "kpt_003", "helpful", HUMAN).spooled
    return project


@contextmanager
def held(project: Project) -> Iterator[None]:
    """Hold the ledger's lock in this process."""
    fd = os.open(project.ledger / "lock", os.O_RDWR)
    try:
        assert disk.try_lock(fd)
        yield
    finally:
        os.close(fd)


class Scene(NamedTuple):
    """Where a call fails.

    Attributes:
        make: Makes the project in a folder.
        given: What is recorded while the call fails.
        held: Whether another process has the lock.
    """

    make: Callable[[Path], Project]
    given: str
    held: bool


SCENES = {
    "history": Scene(begun, RATING, held=False),
    "new": Scene(new, FIRST, held=False),
    "torn": Scene(torn, RATING, held=False),
    "suspect": Scene(suspect, RATING, held=False),
    "waiting": Scene(spooling, RATING, held=False),
    "held": Scene(begun, RATING, held=True),
}


def paths(project: Project) -> list[Path]:
    """Return every path of the project's folder that a command may touch."""
    beside = [project.ledger / name for name in (*FILES, f".playbook.json.{PID}.tmp")]
    return [project.claude, project.playbook, project.ledger, *beside]


def run(
    project: Project,
    options: Sequence[str] = (),
    *,
    scene: Scene = SCENES["history"],
    before: Callable[[], None] | None = None,
) -> Answer:
    """Run ``tallybook record`` as a process of its own, under strace where there are options for it."""
    watched = [word for path in paths(project) for word in ("-P", str(path))]
    tracer = ["strace", "-f", "--seccomp-bpf", "-qq", *watched, *options] if options else []
    command = [*tracer, sys.executable, "-B", "-c", MAIN, "--project", str(project.root), "record"]
    env = os.environ | ({"STANDING": "1"} if scene.held else {})
    with held(project) if scene.held else nullcontext():
        done = subprocess.run(
            command,
            input=scene.given,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            preexec_fn=before,
            env=env,
        )
    return Answer(done.returncode, done.stdout, done.stderr)


def faults(project: Project, trace: Path, scene: Scene) -> list[Fault]:
    """Return each call that a whole run makes, with the errors to try."""
    assert 0 == run(project, ["-o", str(trace), "-e", f"trace={','.join(CALLS)}"], scene=scene).code
    seen: Counter[str] = Counter()
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        name = re.search(r"(?:^|\s)([a-z0-9]+)\(", line)
        # A lock that is held is asked for until the wait is over, as often as the machine is quick.
        if name is None or name[1] not in CALLS or (scene.held and seen[name[1]] == 3 and name[1] == "flock"):
            continue
        seen[name[1]] += 1
        number = seen[name[1]]
        # Many files are opened: their errors take turns.
        chosen = ERRORS if name[1] != "openat" else [ERRORS[number % len(ERRORS)]]
        found += [Fault(name[1], number, error) for error in chosen]
    return found


def fail(project: Project, fault: Fault, scene: Scene) -> Answer:
    """Run the command with one call that fails."""
    inject = f"inject={fault.call}:error={fault.error}:when={fault.number}"
    return run(project, ["-o", "/dev/null", "-e", f"trace={fault.call}", "-e", inject], scene=scene)


def counted(project: Project) -> int:
    """Return how many entries and ratings the ledger holds."""
    events = [event for batch in decode(open_log(project).read()) for event in batch.events]
    return sum(isinstance(event, PointAdded | PointRated) for event in events)


def spooled(project: Project) -> int:
    """Return how many payloads wait in the spool."""
    return len(list((project.ledger / "spool").glob("*.json")))


def assert_clear(answer: Answer, what: object) -> None:
    """See that a command either succeeded or refused in one line of its own, and never showed its insides."""
    complaints = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    assert answer.code in CODES, (what, answer)
    assert "Traceback" not in answer.out + answer.err, (what, answer)
    assert len(complaints) == bool(answer.code), (what, answer)
    assert all(line.startswith("tallybook: ") for line in complaints), (what, answer)
    assert answer.code == 0 or answer.out == "", (what, answer)
    assert answer.code or "nothing was recorded" not in answer.err, (what, answer)
    assert answer.code or "unknown whether it was recorded" not in answer.err, (what, answer)


def assert_goes_on(project: Project, answer: Answer, what: object, before: int) -> None:
    """See that a success is kept, once; that a failure doubled nothing; and that the next command works.

    Args:
        project: Where the command failed.
        answer: What it came to.
        what: The fault, for the message.
        before: How many entries, ratings and waiting payloads there were before it.
    """
    stood = counted(project) + spooled(project) - before
    assert stood >= (answer.code == 0), (what, answer)
    assert commands.add(project, "Next", HUMAN).seq_from is not None, what
    # Only now is a payload told from its copy in the log, where a spooled file outlived its taking in.
    left = counted(project) - before - 1
    assert left == 1 if answer.code == 0 else left in {0, 1}, (what, answer)
    assert 0 == spooled(project), (what, answer)
    assert () == commands.verify(project).problems, (what, answer)
    assert "Next" == list(commands.replay(project).points.values())[-1].text, what


def put_back(kept: Path, project: Project) -> None:
    """Put the project's folder back as it was."""
    shutil.rmtree(project.root)
    shutil.copytree(kept, project.root)


def try_scene(scene: Scene, folder: Path, share: int) -> Counter[tuple[str, int]]:
    """Let calls fail in a scene, each from the same beginning, and see that all is well after each.

    Args:
        scene: What happens.
        folder: An empty folder for the project.
        share: One fault in so many is tried; 1 for all, and an odd number so that every error has its turn.

    Returns:
        How often each call failed, by the exit code that it led to.
    """
    project = scene.make(folder / "project")
    shutil.copytree(project.root, folder / "kept")
    before = counted(project) + spooled(project)
    seen: Counter[tuple[str, int]] = Counter()
    for fault in faults(project, folder / "trace", scene)[::share]:
        put_back(folder / "kept", project)
        answer = fail(project, fault, scene)
        seen[fault.call, answer.code] += 1
        assert_clear(answer, fault)
        # What the cache holds reads well for now: only the answer shows that the disk would not confirm it.
        flush = "fsync" if scene.held else "fdatasync"
        assert (fault.call, answer.code) != (flush, 0) or fault.error == "EINTR", (fault, answer)
        assert_goes_on(project, answer, fault, before)
    return seen


@pytest.mark.parametrize("name", SCENES)
def test_a_failing_call_is_a_clear_error_or_a_durable_append(tmp_path: Path, name: str) -> None:
    """With any call on the project's files failing once, nothing is falsely confirmed, lost or doubled."""
    if why_not():
        pytest.skip(why_not())
    seen = try_scene(SCENES[name], tmp_path, SHARE)
    assert {"write", "fsync", "rename", "flock", "openat"} <= {call for call, _ in seen}
    assert {0, 4} == {code for _, code in seen}


def limited(project: Project, room: int) -> Callable[[], None]:
    """Return what lets a process write no file beyond the log's present size and so many bytes."""
    resource = pytest.importorskip("resource", reason="a process's files can be limited on POSIX alone")
    size = (project.ledger / "events.jsonl").stat().st_size + room
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("room", [0, 1, 5, 100, 250, 300, 400])
def test_a_short_write_is_an_error_that_leaves_nothing_behind(tmp_path: Path, room: int) -> None:
    """Where the system takes a part of a line and then no more, nothing is recorded, and the next command seals it."""
    project = begun(tmp_path)
    before = counted(project)
    size = (project.ledger / "events.jsonl").stat().st_size
    answer = run(project, before=limited(project, room))
    assert (4, size + room) == (answer.code, (project.ledger / "events.jsonl").stat().st_size)
    assert os.strerror(errno.EFBIG) in answer.err
    assert_clear(answer, room)
    assert before == counted(project)
    assert_goes_on(project, answer, room, before)


def test_a_short_write_that_the_rest_follows_is_whole(tmp_path: Path) -> None:
    """Where the disk is full in the middle of a batch, it is there whole or not at all once there is room again."""
    project = begun(tmp_path)
    before = counted(project)
    wide = Scene(begun, json.dumps({"new_key_points": [f"{n} " + "x" * 3_000 for n in range(4)]}), held=False)
    answer = run(project, scene=wide, before=limited(project, 9_000))
    assert 4 == answer.code
    assert_clear(answer, "a batch")
    assert before == counted(project)
    assert 0 == run(project, scene=wide).code
    assert before + 4 == counted(project)
    assert () == commands.verify(project).problems
