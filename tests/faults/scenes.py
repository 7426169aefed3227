"""Scenes: a real command on a real project under strace, so that any of its calls can be made to fail or to kill it.

A new command is tested by one row of SCENES.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
import json
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import attrs

from helpers.commands import CommandResult
from helpers.events import HUMAN, give
from helpers.ledger_files import hold_ledger_lock
from helpers.transcripts import Script, ask_again, find_transcripts
from tallybook.ledger.errors import EXIT_NOT_WRITTEN
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.workspace.project import MARKS, Project
from tallybook.projections.surfaces.writing import commands

ROOT = Path(__file__).resolve().parent.parent.parent
TOUCHING = "%file,%desc"
"""Every call that names a file or has one open."""
CHANGING = {"fchmod", "fdatasync", "flock", "fsync", "ftruncate", "link", "mkdir", "openat", "pwrite64", "rename"}
CHANGING |= {"unlink", "write"}
"""The calls that change something, or that others wait for: between two of them a kill leaves the same files."""
KILL = "KILL"
SHORT = "a short write"
"""The system takes half of what it is given; the writer has to see that and to go on."""
# Files are named after the process, the time and an id, and strace matches calls by paths that are known before.
PID = 4242
MAIN = f"import os\nfrom itertools import count\nos.getpid = lambda: {PID}\n"
MAIN += """
from tallybook.ledger import clock
if os.environ.get("STANDING"):
    clock.utc_now = lambda: clock.moment(1_795_000_000_000_000)
    clock.new_id = lambda _, ids=count(1): f"00000000-0000-7000-8000-{next(ids):012x}"
short = os.environ.get("SHORT", "").split()
def cut(call, name):
    seen = [0]
    def write(fd, data, *rest):
        if os.readlink(f"/proc/self/fd/{fd}").startswith(os.environ["PROJECT"]):
            seen[0] += 1
            if short == [name, str(seen[0])]:
                data = data[: len(data) // 2]
        return call(fd, data, *rest)
    return write
if short:
    os.write, os.pwrite = cut(os.write, "write"), cut(os.pwrite, "pwrite64")
from tallybook.__main__ import main
main()
"""
RATING = '{"evaluations":[{"name":"kpt_001","rating":"helpful"}]}'
FIRST = '{"new_key_points":["Fresh"]}'
BATCH = json.dumps(
    {
        "new_key_points": ["Quote ids as strings", "Run the tests first", "x" * 6_000],
        "evaluations": [{"name": f"kpt_00{number}", "rating": "harmful"} for number in (1, 2, 3, 1, 1)],
    }
)
TELLING = '{"hook_event_name":"SessionStart","source":"startup","session_id":"s1"}'
CITING = '{"hook_event_name":"Stop","session_id":"s1","last_assistant_message":"as [kpt_001] says"}'
GIVEN = "old.json"
TORN = b'{"crc":"00000000","seq":4,"id":"torn'
PRIVATE = "hunter2-of-the-customer"
TOLD = f"the key is {PRIVATE}, keep it"
REDACTING = ("redact", "--text", PRIVATE, "--reason", "it was private", "--yes", "--expect", "3")
LEGACY = {"key_points": ["Bare", {"text": "Without counts"}, {"name": "kpt_007", "text": "Old score", "score": -4}]}


@attrs.frozen
class Scene:
    """A command and its project, to play while calls fail.

    Attributes:
        make: Makes the project in a folder.
        words: The command's verb and what follows it; ``{project}`` stands for the project's folder.
        given: What it reads on standard input.
        held: Whether another process has the lock, so that the command spools what it was given.
        standing: Whether each play gets the same clock and ids, since files and cache folders are named after them.
        takes_out: A text that the command takes out of every file; empty where it takes nothing out.
        silent: Whether the command is a hook: whatever happens it ends with 0, and that acknowledges nothing.
    """

    make: Callable[[Path], Project]
    words: tuple[str, ...] = ("record",)
    given: str = RATING
    held: bool = False
    standing: bool = False
    takes_out: str = ""
    silent: bool = False


def new(root: Path) -> Project:
    """Make a project without a ledger, so that the command has to create it."""
    (root / ".claude").mkdir(parents=True)
    return Project(root)


def three_entries(root: Path) -> Project:
    """Make a project with three entries, and an acknowledged rating."""
    project = new(root)
    for text in ("Use type hints", "Name things well", "Test the edges"):
        commands.add(project, text, HUMAN)
    commands.rate(project, "kpt_001", "helpful", HUMAN)
    return project


def legacy(root: Path) -> Project:
    """Make a project with an old file and no ledger, so that the command has to import the file."""
    project = new(root)
    project.playbook.write_text(json.dumps(LEGACY), encoding="utf-8")
    return project


def add_old_file(root: Path) -> Project:
    """Make a project without a ledger and with an old file for an import."""
    project = new(root)
    (root / GIVEN).write_text(json.dumps(LEGACY), encoding="utf-8")
    return project


def tear_log(root: Path) -> Project:
    """Make a project whose log has a torn end, so that the command has to seal it."""
    project = three_entries(root)
    with (project.ledger / "events.jsonl").open("ab") as file:
        file.write(TORN)
    return project


def plant_secret(root: Path) -> Project:
    """Make a project with a secret in the log, on several lines, in a sealed range and in other files."""
    project = three_entries(root)
    commands.record(project, {"new_key_points": [TOLD, "x" * 9_990 + TOLD]}, HUMAN)
    with (project.ledger / "events.jsonl").open("ab") as file:
        file.write(TORN + PRIVATE.encode())
    commands.rate(project, "kpt_004", "helpful", HUMAN)
    for place in ("scores.json", "../diagnostic/20261118T110640123456Z_playbook_pruning.txt", "spool/odd.json"):
        path = (project.ledger / place).resolve()
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"text": TOLD}))
    return project


def suspect(root: Path) -> Project:
    """Make a project where a flush has failed, so that the command has to rewrite the suspect range."""
    project = three_entries(root)
    fault = ["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1"]
    failed = run(project, Scene(three_entries), ["-P", str(project.ledger / "events.jsonl"), *fault])
    if failed.code != EXIT_NOT_WRITTEN:
        raise AssertionError(f"a flush that fails is no success: {failed}")
    return project


def spool_payload(root: Path) -> Project:
    """Make a project with a spooled payload, so that the command has to record it and remove its file."""
    project = three_entries(root)
    with hold_ledger_lock(project):
        commands.rate(project, "kpt_003", "helpful", HUMAN)
    return project


def edit_playbook(root: Path) -> Project:
    """Make a project with a manual edit of playbook.json, so that the command has to record it."""
    project = three_entries(root)
    data = project.playbook.read_bytes()
    project.playbook.write_bytes(data.replace(b"Name things well", b"Name things by what they do"))
    return project


def unreadable(root: Path) -> Project:
    """Make a project whose playbook.json is broken, so that the command has to set it aside."""
    project = three_entries(root)
    project.playbook.write_bytes(b'{"key_points": [{"na')
    return project


def remove_rendering(root: Path) -> Project:
    """Make a project without a playbook.json, so that the command has to write it."""
    project = three_entries(root)
    project.playbook.unlink()
    return project


def cite_entry(root: Path) -> Project:
    """Make a project in which a session that cited an entry is to be reflected on."""
    project = three_entries(root)
    give(project, "s1", "kpt_001")
    ask_again(project, Script(find_transcripts(root) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says."))
    return project


def lengthy(root: Path) -> Project:
    """Make a project with a history so long that the command stores a checkpoint."""
    project = three_entries(root)
    commands.record(project, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(8)]}, HUMAN)
    return project


def settle_project(root: Path) -> Project:
    """Make a project without pending work, so that a hook starts no worker."""
    project = three_entries(root)
    (project.ledger / MARKS).mkdir(exist_ok=True)
    (project.ledger / MARKS / "settled").write_text("none", encoding="utf-8")
    return project


def give_entry(root: Path) -> Project:
    """Make a settled project that gave a session an entry, so that its citation counts."""
    project = settle_project(root)
    give(project, "s1", "kpt_001")
    return project


ASKED = 3  # So often a held lock is asked for before the number depends on the machine.
KEYED = ("record", "--key", "span-1", "-")
SCENES = {
    "append": Scene(three_entries),
    "batch": Scene(three_entries, given=BATCH),
    "append under a key": Scene(three_entries, KEYED),
    "first opening": Scene(new, given=FIRST, standing=True),
    "first opening of a legacy file": Scene(legacy, given=FIRST, standing=True),
    "import": Scene(add_old_file, ("import", f"{{project}}/{GIVEN}"), "", standing=True),
    "repair of a torn end": Scene(tear_log),
    "repair by a replay": Scene(tear_log, ("replay",), ""),
    "repair after a failed flush": Scene(suspect),
    "replay": Scene(remove_rendering, ("replay",), ""),
    "replay of a broken file": Scene(unreadable, ("replay",), "", standing=True),
    "replay of a changed file": Scene(edit_playbook, ("replay",), ""),
    "taking in the spool": Scene(spool_payload),
    "redaction": Scene(plant_secret, REDACTING, "", takes_out=PRIVATE),
    "spooling": Scene(three_entries, held=True, standing=True),
    "a checkpoint": Scene(lengthy),
    "a decision": Scene(three_entries, ("merge", "kpt_001", "kpt_002", "--reason", "they say the same"), ""),
    "undoing": Scene(three_entries, ("undo", "--reason", "misread"), ""),
    "keeping quotes": Scene(cite_entry, ("reflect",), ""),
    "telling a session": Scene(settle_project, ("hook",), TELLING, silent=True),
    "a citation": Scene(give_entry, ("hook",), CITING, silent=True),
}
"""Name of a scene → what happens in it. Whatever a command changes on disk wants a row here."""


def run(
    project: Project,
    scene: Scene,
    options: Sequence[str] = (),
    *,
    short: str = "",
    before: Callable[[], None] | None = None,
) -> CommandResult:
    """Run a scene's command in its own process.

    Args:
        project: Where.
        scene: Whose command.
        options: Those of strace; without any it is not traced.
        short: Which write of Python's is cut in half, as ``CALL NUMBER``; the others are whole.
        before: Called in the process before the command begins.
    """
    # With the filter of the kernel strace stops fewer calls, and sends no signals.
    quick = [] if any("signal=" in option for option in options) else ["--seccomp-bpf"]
    quiet = [] if "-o" in options else ["-o", "/dev/null"]
    tracer = ["strace", "-f", *quick, "-qq", *quiet, *options] if options else []
    words = [word.format(project=project.root) for word in scene.words]
    # An agent names the project in the environment, and whoever it calls has no word for it.
    named = [] if scene.silent else ["--project", str(project.root)]
    command = [*tracer, sys.executable, "-B", "-c", MAIN, *named, *words]
    # The path of the cache begins as the project's, so that the calls that touch it are made to fail as well.
    env = os.environ | {"PROJECT": f"{project.root}", "SHORT": short, caches.VARIABLE: f"{project.root}.cache"}
    env |= {"STANDING": "1"} if scene.standing else {}
    env |= {"CLAUDE_PROJECT_DIR": str(project.root)} if scene.silent else {}
    with hold_ledger_lock(project) if scene.held else nullcontext():
        # In a group of its own it does not hear a Control-C that is meant for the run.
        done = subprocess.run(
            command,
            input=scene.given.encode(),
            capture_output=True,
            check=False,
            cwd=ROOT,
            env=env,
            preexec_fn=before,
            process_group=0,
        )
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def here(project: Project, *words: str) -> CommandResult:
    """Run the command line in this process, which is quicker and enough if no call is to fail."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_here(["--project", str(project.root), *words])
    return CommandResult(code, out.getvalue(), err.getvalue())


@cache
def why_not() -> str:
    """Return the reason why calls cannot be interrupted here in this way, an empty text if they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=none", "true"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else "this system does not let strace trace a process"


class SystemCall(NamedTuple):
    """A call of a run: its name, and its number among those of that name that touch the project."""

    name: str
    number: int


class Fault(NamedTuple):
    """One interrupted call: its name, which of that name, and KILL, SHORT or the name of an error."""

    name: str
    number: int
    how: str

    def __str__(self) -> str:
        """Render it so that it can be repeated."""
        return f"{self.how} at {self.name} {self.number}"


class Staged:
    """A scene that can be played repeatedly from the same start, each time with another call interrupted.

    Attributes:
        scene: What is played.
        project: Where; at first it is as one undisturbed play has left it.
        kept: The project as it is at the beginning.
        calls: The calls of an undisturbed play that touch the project, in order.
    """

    def __init__(self, scene: Scene, folder: Path) -> None:
        """Make the project in an empty folder, and play the scene once, undisturbed and traced.

        Raises:
            AssertionError: The command did not succeed.
        """
        self.scene = scene
        self.project = scene.make(folder / "project")
        self.kept = Project(folder / "kept")
        shutil.copytree(self.project.root, self.kept.root)
        trace = folder / "trace"
        answer = run(self.project, scene, ["-o", str(trace), "-y", "-e", f"trace={TOUCHING}"])
        if answer.code != 0:
            raise AssertionError(f"{scene.words} fails although nothing is made to: {answer}")
        lines = trace.read_text(encoding="utf-8", errors="replace").splitlines()
        inside = rf'(?<=["<]){re.escape(str(self.project.root))}[^">]*(?=[">])'
        paths = [path for line in lines for path in re.findall(inside, line)]
        self._watched = [word for path in dict.fromkeys(paths) for word in ("-P", path)]
        self.calls = self._counted(lines)

    def _counted(self, lines: Sequence[str]) -> list[SystemCall]:
        """Return the calls that name one of the project's paths, or have one open."""
        # Only the first two arguments: those behind them are data.
        touching = re.compile(rf'\d+ +([a-z0-9_]+)\((?:[^",]*, )?[^",]*["<]{re.escape(str(self.project.root))}')
        seen: Counter[str] = Counter()
        calls = []
        for line in lines:
            name = touching.match(line)
            # A lock that is held is asked for until the wait is over, as often as the machine is quick.
            if name is None or (self.scene.held and name[1] == "flock" and seen["flock"] == ASKED):
                continue
            seen[name[1]] += 1
            calls.append(SystemCall(name[1], seen[name[1]]))
        return calls

    def put_back(self) -> None:
        """Restore the project, without a cache."""
        for folder in (self.project.root, f"{self.project.root}.cache"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.kept.root, self.project.root)

    def play(self, fault: Fault | None = None) -> CommandResult:
        """Play the scene from its start, with one call interrupted if one is given."""
        self.put_back()
        if fault is None or fault.how == SHORT:
            return run(self.project, self.scene, short=f"{fault.name} {fault.number}" if fault else "")
        how = "signal=KILL" if fault.how == KILL else f"error={fault.how}"
        inject = f"inject={fault.name}:{how}:when={fault.number}"
        return run(self.project, self.scene, [*self._watched, "-e", f"trace={fault.name}", "-e", inject])
