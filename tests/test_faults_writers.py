"""Writers that are killed, stopped or misled: acknowledged events are kept, once, and no writer blocks another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import errno
import json
import os
from pathlib import Path
import random
import shutil
import signal
import subprocess
import sys
from typing import Any

import attrs
import pytest

from benchmarks import data
from faults import writers
from faults.scenes import here, three_entries
from helpers.commands import ROOT, lay_out, replay_bytes
from helpers.events import HUMAN, list_events
from helpers.hook_calls import START, events, read_context
from helpers.ledger_files import caches_of
from helpers.ledger_logs import Clock, append, lines, names
from tallybook.ledger import clock
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError
from tallybook.ledger.events import PlaybookInjected, PointCited
from tallybook.ledger.line import MAX_LINE_BYTES
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.hooks.handler import SETTLED
from tallybook.projections.surfaces.workspace.project import MARKS, Project
from tallybook.projections.surfaces.writing import commands

RATING = '{"evaluations":[{"name":"kpt_001","rating":"helpful"}]}'
NOTHING = {"lost": 0, "doubled": 0, "believed": 0, "damaged": 0}
HOLDER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tallybook.ledger.log import JsonlLog
with JsonlLog(Path(sys.argv[2])).transaction():
    os.write(1, b"held")
    sys.stdin.read()
"""
COMMAND = "from tallybook.__main__ import main; main()"
# What the command imports is loaded before the limit holds: it is the ledger's files that shall find no room.
BARE = """
import resource, sys
from tallybook.ledger import search
from tallybook.ledger.storage import spool
from tallybook.projections.surfaces.console import output as answers
from tallybook.projections.surfaces.cli import everyday, main as cli, upkeep
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.cli.main import run
resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW))
sys.exit(run(["--project", sys.argv[1], *sys.argv[2:]]))
"""


def python(*arguments: str, env: Mapping[str, str] = os.environ, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script of this project."""
    command = [sys.executable, "-B", "-c", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, input=given, capture_output=True, text=True, check=False)


@pytest.fixture
def two_entries(project: Path) -> Project:
    """Return a project whose ledger holds two entries."""
    place = Project(project)
    commands.add(place, "Use type hints", HUMAN)
    commands.add(place, "Name things well", HUMAN)
    return place


def test_sixty_four_writers_killed_at_random_lose_nothing(tmp_path: Path) -> None:
    """Every rating printed before a kill is in the log whole and once, and the log works on."""
    folder = tmp_path / "ledger"
    chance = random.Random(64)  # noqa: S311 - repeats the choice of whom to kill
    acknowledged, kills, complaints = writers.kill_some(folder, chance)
    assert kills > 0
    assert [] == complaints
    log = JsonlLog(folder)
    writers.append_one(log, "end")
    # The last one is a single rating, the writers' come in pairs.
    assert NOTHING | {"believed": 1} == writers.judge(log, acknowledged)
    assert ["end"] == [name for name, number in writers.counts(log).items() if number == 1]
    log.close()


def test_a_stopped_lock_holder_delays_no_writer(two_entries: Project) -> None:
    """While the lock's holder is stopped a rating is answered as spooled, and later it is recorded once."""
    command = [sys.executable, "-B", "-c", HOLDER, str(ROOT), str(two_entries.ledger)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert b"held" == holder.stdout.read(4)
        holder.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
        outcome = commands.rate(two_entries, "kpt_001", "helpful", HUMAN)
        assert (True, None) == (outcome.spooled, outcome.seq_from)
        assert None is holder.poll()
    finally:
        holder.kill()
        holder.communicate()
    commands.rate(two_entries, "kpt_002", "helpful", HUMAN)
    points = commands.replay(two_entries)[0].entries
    assert [1, 1] == [points[name].helpful for name in ("kpt_001", "kpt_002")]
    assert () == commands.verify_and_fold(two_entries)[0].problems


@pytest.mark.parametrize("spare", range(6))
def test_missing_file_descriptors_are_one_clear_line(two_entries: Project, spare: int) -> None:
    """With few file descriptors a command prints one line with exit code 4, or it records durably."""
    before = (two_entries.ledger / "events.jsonl").read_bytes()
    done = python(BARE.replace("FEW", str(3 + spare)), str(two_entries.root), "record", given=RATING)
    assert "Traceback" not in done.stderr
    recorded = commands.show(two_entries)["key_points"][0]["helpful"]
    assert (0 if recorded else 4) == done.returncode
    if not recorded:
        assert ("", 1) == (done.stdout, len(done.stderr.splitlines()))
        assert done.stderr.startswith("tallybook: ")
        assert os.strerror(errno.EMFILE) in done.stderr
        assert before == (two_entries.ledger / "events.jsonl").read_bytes()
    assert commands.rate(two_entries, "kpt_002", "helpful", HUMAN).seq_from is not None
    assert () == commands.verify_and_fold(two_entries)[0].problems


def test_a_foreign_line_among_writers_is_sealed(tmp_path: Path) -> None:
    """Bytes that another program appends while writers run stay in the file, are sealed, and lose no event."""
    folder = tmp_path / "ledger"
    append(JsonlLog(folder), "first")
    running = [writers.start(folder, f"w{number}", 40) for number in range(8)]
    for number in range(20):
        subprocess.run(["/bin/sh", "-c", 'echo "mine $0" >> "$1"', str(number), folder / "events.jsonl"], check=True)
    acknowledged, complaints = writers.finish(running)
    log = JsonlLog(folder)
    writers.append_one(log, "end")
    assert [] == complaints
    assert 8 * 40 == len(acknowledged)
    verdict = writers.judge(log, acknowledged)
    assert (0, 0, 0) == (verdict["lost"], verdict["doubled"], verdict["damaged"])
    assert 20 == (folder / "events.jsonl").read_bytes().count(b"mine ")
    assert any(line["kind"] == "log.recovered" for line in lines(log))
    log.close()


def test_a_foreign_line_before_a_seal_is_never_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seal that another program's bytes have moved seals nothing: a repeated delivery cannot acknowledge past it."""
    log = JsonlLog(tmp_path / "ledger")
    append(log, "a")
    with log.path.open("ab") as file:
        file.write(b"torn\n")
    write_all = disk.write_all

    def overtaken(fd: int, data: bytes, path: str | os.PathLike[str]) -> None:
        if b"log.recovered" in data:
            with log.path.open("ab") as file:
                file.write(b"mine\n")
        write_all(fd, data, path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_all", overtaken)
        with pytest.raises(CannotWriteError, match="another program wrote"), log.transaction():
            pass
    append(log, "b")
    log.close()
    assert ["a", "b"] == names(log)
    assert () == verify(log).problems


def test_a_log_replaced_by_a_copy_is_written_to(tmp_path: Path) -> None:
    """A writer whose log was replaced by a copy appends to the copy, which has the log's name."""
    log = JsonlLog(tmp_path / "ledger")
    append(log, "a")
    shutil.copy(log.path, tmp_path / "copy")
    (tmp_path / "copy").replace(log.path)
    append(log, "b")
    assert ["a", "b"] == names(log)
    assert () == verify(log).problems
    log.close()


def test_a_log_replaced_by_an_older_copy_is_damage(tmp_path: Path) -> None:
    """A copy that lacks acknowledged events is refused, by the resident writer too."""
    log = JsonlLog(tmp_path / "ledger")
    append(log, "a")
    shutil.copy(log.path, tmp_path / "copy")
    append(log, "b")
    (tmp_path / "copy").replace(log.path)
    with pytest.raises(DamagedLedgerError):
        append(log, "c")
    with pytest.raises(DamagedLedgerError):
        list(log.read())
    assert 0 != len(verify(log).problems)
    log.close()


def run_backwards(clock: Clock) -> None:
    """Run back, by two hours at a time."""
    clock.move(-7200)


def stay_at_one_time(clock: Clock) -> None:
    """Return the same time always."""
    clock.move(0)


def stay_at_the_maximum(clock: Clock) -> None:
    """Return the last second of year 9999 from now on."""
    clock.unix_us = 253_402_300_799 * 1_000_000


def jump_to_the_maximum(odd: Clock) -> None:
    """Return year 9999 and the present in turn."""
    odd.unix_us = clock.utc_now().unix_us if odd().at.startswith("9999") else 253_402_300_799 * 1_000_000


@pytest.mark.parametrize(
    ("step", "notes"),
    [(run_backwards, True), (stay_at_one_time, False), (stay_at_the_maximum, False), (jump_to_the_maximum, True)],
)
def test_an_odd_clock_breaks_nothing(tmp_path: Path, step: Callable[[Clock], None], *, notes: bool) -> None:
    """Event numbers, ids and the chain are whole whatever the clock returns; a clock that runs back is noted."""
    odd = Clock()
    for name in "abcd":
        log = JsonlLog(tmp_path / "ledger", odd)
        append(log, name)
        log.close()
        step(odd)
    assert list("abcd") == names(log)
    assert [1, 2, 3, 4, 5] == [line["seq"] for line in lines(log)]
    verdict = verify(log)
    assert () == verdict.problems
    assert notes == any("clock" in note or "back" in note for note in verdict.notes)


@pytest.mark.parametrize(
    "odd",
    [
        {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati"},
        {"PYTHONHASHSEED": "4294967295", "TZ": "America/St_Johns", "LC_ALL": "C"},
        {"TZ": ":nowhere", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR"},
        {"PYTHONUTF8": "0", "LC_ALL": "POSIX", "PYTHONIOENCODING": "latin-1"},
    ],
    ids=str,
)
def test_no_environment_changes_the_bytes(two_entries: Project, odd: dict[str, str]) -> None:
    """A replay gives the same bytes under every hash seed, locale and time zone, and so does what they record."""
    payload = (
        '{"new_key_points":["I\\u0131 \\u4e16 first","second"],"evaluations":[{"name":"kpt_001","rating":"harmful"}]}'
    )
    place = str(two_entries.root)
    recorded = python(COMMAND, "--project", place, "record", env=os.environ | odd, given=payload)
    assert (0, "") == (recorded.returncode, recorded.stderr)
    here = two_entries.playbook.read_bytes()
    assert here == replay_bytes(two_entries)
    there = python(
        COMMAND, "--project", place, "replay", "--output", str(two_entries.root / "out"), env=os.environ | odd
    )
    assert (0, "") == (there.returncode, there.stderr)
    assert here == (two_entries.root / "out").read_bytes()
    assert () == commands.verify_and_fold(two_entries)[0].problems


# Two releases of Tallybook on one ledger: the older one keeps unknown events, and neither damages the other's.


MAIN = "from tallybook.__main__ import main; main()"
ODD = {"key_points": ["Use type hints", "Name things well", {"no": "text"}]}
LATER_KINDS = {
    "ledger/events.py": """
import attrs


@attrs.frozen
class SessionNoted:
    session: str


EVENT_TYPES["session.noted"] = (SessionNoted, 1)
KIND_OF[SessionNoted] = "session.noted"
EVENT_TYPES["point.rated"] = (PointRated, 2)
""",
    "ledger/codec.py": '\nUPCASTS["point.rated", 1] = lambda fields: fields\n',
}
"""What makes a later release: a kind that this one does not know, and a kind that has another shape since."""
EARLIER_KINDS = {"ledger/events.py": '\ndel EVENT_TYPES["item.skipped"], KIND_OF[ItemSkipped]\n'}
"""What makes an earlier release: it does not know a kind that this one writes."""
LATER_FORMAT = {"ledger/line.py": "\nFORMAT = 2\n"}
NOTE = """
import sys
from pathlib import Path
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.codec import encode
from tallybook.ledger.events import SessionNoted
with JsonlLog(Path(sys.argv[1])).transaction() as tx:
    tx.append([encode(SessionNoted(name)) for name in sys.argv[2:]], {"rater": "agent"})
"""
MANY = """
import sys
from pathlib import Path
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.workspace.project import Project
for number in range(int(sys.argv[3])):
    outcome = commands.rate(Project(Path(sys.argv[1])), sys.argv[2], "helpful", {"rater": "agent"})
    print("spooled" if outcome.spooled else outcome.seq_from, flush=True)
"""


@attrs.frozen
class Release:
    """A copy of the packages as another release would have them, and the project that it works on."""

    root: Path
    project: Path

    def start(self, code: str, *words: str) -> subprocess.Popen[str]:
        """Start Python code of this release."""
        command = [sys.executable, "-B", "-c", code, *words]
        return subprocess.Popen(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command, check its exit code, and return its output and errors."""
        running = self.start(MAIN, "--project", str(self.project), *words)
        out, err = running.communicate()
        assert code == running.returncode, err
        return out + "".join(line for line in err.splitlines(keepends=True) if not line.startswith("note: "))

    def answer(self, *words: str) -> Any:
        """Run a command and return its JSON answer."""
        return json.loads(self.run(*words, "--json"))


def release(project: Path, name: str, added: Mapping[str, str]) -> Release:
    """Return a release: the present code with something added to the end of its files."""
    root = project / "releases" / name
    lay_out(root)
    for file, text in added.items():
        with (root / "tallybook" / file).open("a", encoding="utf-8") as code:
            code.write(text)
    return Release(root, project)


@pytest.fixture
def present(project: Path) -> Release:
    """Return the present release, on a project with an old file that holds an odd item."""
    (project / ".claude" / "playbook.json").write_text(json.dumps(ODD), encoding="utf-8")
    return Release(ROOT, project)


def event_bytes(project: Path) -> bytes:
    """Return the log."""
    return (project / ".claude" / "ledger" / "events.jsonl").read_bytes()


def helpful(release: Release) -> dict[str, int]:
    """Return the helpful counts that a release shows."""
    return {point["name"]: point["helpful"] for point in release.answer("show")["key_points"]}


def test_an_earlier_release_takes_turns(present: Release, project: Path) -> None:
    """It keeps an unknown kind byte for byte, counts the known ones, and both releases verify the ledger."""
    earlier = release(project, "earlier", EARLIER_KINDS)
    for number, turn in enumerate((present, earlier, present, earlier)):
        before = event_bytes(project) if number else b""
        turn.run("rate", "kpt_001", "helpful") if number else turn.run("add", "The first")
        assert event_bytes(project).startswith(before)
        assert {"kpt_001": number, "kpt_002": 0, "kpt_003": 0} == helpful(earlier) == helpful(present)
        for reader in (present, earlier):
            reader.run("replay", "--check")
    assert {} == present.answer("verify")["unknown_kinds"]
    assert {"item.skipped/1": 1} == earlier.answer("verify")["unknown_kinds"]
    assert 1 == event_bytes(project).count(b'"kind":"item.skipped"')


def test_a_later_release_takes_turns(present: Release, project: Path) -> None:
    """The present release ignores and keeps a newer kind and version, and the later one still counts them."""
    later = release(project, "later", LATER_KINDS)
    present.run("add", "The first")
    later.run("rate", "kpt_001", "helpful")
    note = later.start(NOTE, str(project / ".claude" / "ledger"), "s1", "s2")
    assert ("", "") == note.communicate()
    before = event_bytes(project)
    present.run("rate", "kpt_002", "helpful")
    assert event_bytes(project).startswith(before)
    assert (0, 1) == (helpful(present)["kpt_001"], helpful(present)["kpt_002"])
    assert {"point.rated/2": 1, "session.noted/1": 2} == present.answer("verify")["unknown_kinds"]
    later.run("rate", "kpt_002", "helpful")
    assert (1, 2) == (helpful(later)["kpt_001"], helpful(later)["kpt_002"])
    assert {} == later.answer("verify")["unknown_kinds"]
    later.run("replay", "--check")


def test_two_releases_write_at_once(present: Release, project: Path) -> None:
    """Ratings by two releases at the same time are all there, once, and both releases verify the ledger."""
    earlier = release(project, "earlier", EARLIER_KINDS)
    present.run("add", "The first")
    running = [
        turn.start(MANY, str(project), name, "12")
        for turn, name in ((present, "kpt_001"), (earlier, "kpt_001"), (present, "kpt_002"), (earlier, "kpt_002"))
    ]
    told = [writer.communicate() for writer in running]
    assert [""] * 4 == [err for _, err in told]
    seqs = [line for out, _ in told for line in out.split() if line != "spooled"]
    assert len(seqs) == len({*seqs})
    # The next command takes in what waited for the lock.
    earlier.run("replay")
    assert {"kpt_001": 24, "kpt_002": 24, "kpt_003": 0} == helpful(present) == helpful(earlier)
    for reader in (present, earlier):
        assert reader.answer("verify")["ok"]
        reader.run("replay", "--check")


def test_a_later_format_is_refused(project: Path) -> None:
    """A ledger in a later format is neither read nor written: one line suggests an upgrade, with exit code 4."""
    release(project, "later", LATER_FORMAT).run("add", "The first")

    def files() -> dict[Path, tuple[bytes, int]]:
        found = [path for path in (project / ".claude").rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}

    before = files()
    for line in ("show", "verify", "log", "add more", "rate kpt_001 helpful", "replay", "replay --check"):
        told = Release(ROOT, project).run(*line.split(), code=4)
        assert ["tallybook: "] == [line[:11] for line in told.splitlines()]
        assert "upgrade Tallybook" in told
    assert before == files()


# A hook whose caches are gone: it records its event and gives the session the playbook, however long the ledger is.


EVENTS = 20_000
# Of ours, what reads, decodes and verifies batches.
READING = ("tallybook.ledger.scan", "tallybook.ledger.scan", "json", "re")
CODE = """
import os, sys
read, pread = [0], os.pread
def count(fd, size, offset):
    data = pread(fd, size, offset)
    read[0] += len(data)
    return data
os.pread = count
from tallybook.projections.surfaces.hooks.handler import run
run([])
sys.stderr.write(f"{read[0]} {' '.join(sys.modules)}")
"""
STOP = {"hook_event_name": "Stop", "last_assistant_message": "[kpt_002]"}


@attrs.frozen
class HookRun:
    """What one call of the hook did.

    Attributes:
        answer: What the agent gets.
        read_bytes: How many bytes it read at offsets of files, most of them of the log.
        modules: The modules that it loaded.
    """

    answer: str
    read_bytes: int
    modules: list[str]


def call(payload: Mapping[str, Any], session: str) -> HookRun:
    """Call the hook in a process of its own."""
    given = json.dumps({"session_id": session, **payload}).encode()
    done = subprocess.run([sys.executable, "-S", "-c", CODE], input=given, capture_output=True, check=True)
    read_bytes, *modules = done.stderr.decode().split()
    return HookRun(done.stdout.decode(), int(read_bytes), modules)


@pytest.fixture
def long_project(project: Path) -> Project:
    """Return a project with a long ledger, whose ``playbook.json`` is current and whose caches are gone."""
    made = Project(project)
    data.build(made.ledger, "alike", EVENTS)
    commands.replay(made)
    shutil.rmtree(caches_of(made.ledger).parent, ignore_errors=True)
    return made


def test_a_hook_at_a_long_ledger_without_caches_gives_the_playbook(
    long_project: Project, installed_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for its key's bytes once, decodes no batch, and the delivery that comes again costs the end of the log.

    A cache of keys that had to be built first cost every session its playbook.
    """
    monkeypatch.setenv("PYTHONPATH", str(installed_in))
    log_bytes = (long_project.ledger / "events.jsonl").stat().st_size
    started = call(START, "s1")
    assert "\n[kpt_" in read_context(started.answer)
    assert [] == [name for name in READING if name in started.modules]
    assert log_bytes <= started.read_bytes < 1.5 * log_bytes
    assert 1 == len(events(long_project, PlaybookInjected))
    shutil.rmtree(long_project.ledger / "marks")
    stopped = [call(STOP, "s1") for _ in range(2)]
    assert log_bytes <= stopped[0].read_bytes < 1.5 * log_bytes
    assert stopped[1].read_bytes < 1024 * 1024 + 4 * MAX_LINE_BYTES < log_bytes
    assert 1 == len(events(long_project, PointCited))


# A long ledger where no cache folder can be used: every command and hook works without one.


TEXT = "Test the edges"
QUESTIONS = (("show",), ("why", "kpt_003"), ("log",), ("score",), ("doctor",))
WRITING = (("rate", "kpt_001", "helpful"), ("replay",), ("show",))
CACHE = "cache"
"""Where an archive can have a cache: in the ledger's folder, which no command reads for one."""


def write_long(root: Path) -> Project:
    """Make a project whose ledger is long enough for a checkpoint, with settings of its own."""
    project = three_entries(root)
    # No process of the hook goes on to reflect while the test looks.
    (project.ledger / MARKS).mkdir()
    (project.ledger / MARKS / SETTLED).write_text("none", encoding="utf-8")
    (project.claude / "config").mkdir()
    (project.claude / "config" / "tallybook.toml").write_text("[playbook]\nbudget_chars = 7000\n", encoding="utf-8")
    commands.record(project, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(8)]}, HUMAN)
    commands.show(project)
    return project


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with a long ledger, where no cache folder can be used."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    monkeypatch.setenv("TALLYBOOK_CACHE_DIR", str(tmp_path / "open"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    return write_long(tmp_path / "project")


def start_hook(event: str, text: str = "") -> str:
    """Return the answer of a hook that gets its cache folder from the environment."""
    said = {"hook_event_name": event, "source": "startup", "session_id": "s1", "last_assistant_message": text}
    words = [sys.executable, "-c", "from tallybook.__main__ import main; main()", "hook"]
    done = subprocess.run(words, input=json.dumps(said), capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_without_a_cache_folder_every_command_and_hook_works(closed: Project, tmp_path: Path) -> None:
    """Their answers are those with a cache folder, and they write nothing to the folder."""
    assert TEXT in start_hook("SessionStart")
    assert ["", "", ""] == [start_hook("SessionStart"), start_hook("UserPromptSubmit"), start_hook("Stop", "[kpt_003]")]
    assert "" == start_hook("Stop", "[kpt_003]")
    for words in (*QUESTIONS, *WRITING):
        assert (words, 0) == (words, here(closed, *words).code)
    kinds = [row["kind"] for row in list_events(closed)]
    assert (1, 1) == (kinds.count("playbook.injected"), kinds.count("point.cited"))
    assert [] == list((tmp_path / "open").iterdir())
    assert not (closed.ledger / CACHE).exists()
