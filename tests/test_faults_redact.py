"""A redaction that is killed or refused at any call, raced by writers, or meets files that cannot change."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
import json
import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from faults.at_calls import unclear
from faults.scenes import PID, ROOT, Answer, Fault, three_entries, why_not
from helpers.authors import HUMAN
from helpers.cache_places import caches_of
from helpers.events import list_events
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.writing.redact import RedactionTarget, redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tallybook.projections.surfaces.workspace.project import Project

PRIVATE = "hunter2-of-the-customer"
TOLD = f"the key is {PRIVATE}, keep it"
TORN = b'{"crc":"00000000","seq":4,"id":"torn","body":"' + PRIVATE.encode()
# What changes the disk: a kill at any other call leaves what the one before it left.
CALLS = ("write", "pwrite64", "ftruncate", "fdatasync", "fsync", "rename", "unlink")
# One call in so many is tried here, a quarter of a minute in all.
SHARE = 5
MAIN = f"""
import os
os.getpid = lambda: {PID}
from tallybook.projections.surfaces.entry_point import main
main()
"""
STAMP = "20261118T110640123456Z"
FILES = (
    *("events.jsonl", "head", "lock", "render.lock", "rendered", ".gitignore", f".rendered.{PID}.tmp"),
    *("quarantine", "spool"),
)
OTHERS = (
    *("redacted", "redacted/digests.json", f"redacted/.digests.json.{PID}.tmp", "redacted/.gitignore"),
    *("erasing", ".erased", f".erasing.{PID}.tmp", "quarantine/0-1.bin", "spool/odd.json"),
    *(f"../.playbook.json.{PID}.tmp", "scores.json", "../diagnostic", f"../diagnostic/{STAMP}_playbook_pruning.txt"),
)


def begin_secret(root: Path) -> Project:
    """Make a project with the secret in the log, on several lines, in a sealed range and in other files."""
    project = three_entries(root)
    commands.record(project, {"new_key_points": [TOLD, "x" * 9_990 + TOLD]}, HUMAN)
    with (project.ledger / "events.jsonl").open("ab") as file:
        file.write(TORN)
    commands.rate(project, "kpt_004", "helpful", HUMAN)
    for place in ("scores.json", f"../diagnostic/{STAMP}_playbook_pruning.txt", "spool/odd.json"):
        path = (project.ledger / place).resolve()
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"text": TOLD}))
    return project


def run(project: Project, options: Sequence[str] = ()) -> Answer:
    """Redact the secret in its own process, under strace if there are options for it."""
    watched = [project.claude, project.playbook, project.ledger, *(project.ledger / name for name in FILES)]
    watched += [(project.ledger / name).resolve() for name in OTHERS]
    watched += (project.ledger / "quarantine").glob("*")
    cache = caches_of(project.ledger)
    watched += [cache.parent.parent, cache.parent, cache, *cache.glob("*")]
    named = [word for path in watched for word in ("-P", str(path))]
    # Not by --seccomp-bpf, which lets errors through and no signal.
    tracer = ["strace", "-f", "-qq", *named, *options] if options else []
    words = ["redact", "--text", PRIVATE, "--reason", "it was private", "--yes", "--expect", "3"]
    command = [*tracer, sys.executable, "-B", "-c", MAIN, "--project", str(project.root), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return Answer(done.returncode, done.stdout, done.stderr)


def calls(project: Project, trace: Path) -> list[tuple[str, int]]:
    """Return each call of a whole redaction: its name, and its number among its kind."""
    assert 0 == run(project, ["-o", str(trace), "-e", f"trace={','.join(CALLS)}"]).code
    seen: Counter[str] = Counter()
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        name = re.search(r"(?:^|\s)([a-z0-9]+)\(", line)
        if name is not None and name[1] in CALLS:
            seen[name[1]] += 1
            found.append((name[1], seen[name[1]]))
    return found


def holding(project: Project) -> list[Path]:
    """Return the files in the agent's folder that hold the secret."""
    files = (path for path in project.claude.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in files if PRIVATE.encode() in path.read_bytes()]


def shown(project: Project) -> list[tuple[str, int]]:
    """Return the playbook, without texts that hold the secret or were redacted."""
    entries = commands.show(project)["key_points"]
    texts = [("" if PRIVATE in entry["text"] else entry["text"].replace("[redacted]", "")) for entry in entries]
    return [(text, entry["helpful"]) for text, entry in zip(texts, entries, strict=True)]


def assert_recovers(project: Project, what: object, before: list[tuple[str, int]], *, done: bool) -> None:
    """Check that the ledger is whole, the next writer finishes a noted redaction, and another attempt succeeds.

    Args:
        project: The project of the interrupted redaction.
        what: The fault, for the message.
        before: The playbook before it.
        done: Whether the command reported success.
    """
    verdict = commands.verify_and_fold(project)[0]
    assert () == verdict.problems, what
    assert before == shown(project), what
    noted = (project.ledger / "erasing").exists()
    said = any(row["kind"] == "event.redacted" for row in list_events(project))
    assert noted == any("not finished" in note for note in verdict.notes), what
    assert not noted or PRIVATE not in json.dumps(commands.show(project)), what
    commands.rate(project, "kpt_001", "neutral", HUMAN)
    if noted or said or done:
        # Only a killed process's own file may be left, where it had no name that anybody reads yet.
        assert [] == holding(project), what
    apply_again(project)
    assert [] == holding(project), what
    assert ((), ()) == (commands.verify_and_fold(project)[0].problems, redactions(project)), what
    assert before == shown(project), what
    commands.check(project)


def redactions(project: Project) -> tuple[str, ...]:
    """Return the redactions that verify reports: none once they are done."""
    return tuple(note for note in commands.verify_and_fold(project)[0].notes if "redact" in note)


def apply_again(project: Project) -> None:
    """Redact once more; the error that nothing holds the text is fine as well."""
    words = ["redact", "--text", PRIVATE, "--reason", "it was private", "--yes", "--expect", "3"]
    assert main.run(["--project", str(project.root), *words]) in {0, 1}


def suffer(folder: Path, share: int, how: str) -> Counter[int]:
    """Redact with one call that kills the process or fails, each time from the same start.

    Args:
        folder: An empty folder.
        share: One call in so many is tried; 1 for all.
        how: What strace does at the call: ``signal=KILL`` or ``error=ENOSPC``.

    Returns:
        The number of each exit code.
    """
    project = begin_secret(folder / "project")
    shutil.copytree(project.root, folder / "kept")
    before = shown(project)
    codes: Counter[int] = Counter()
    for call, number in calls(project, folder / "trace")[::share]:
        shutil.rmtree(project.root)
        shutil.copytree(folder / "kept", project.root)
        inject = f"inject={call}:{how}:when={number}"
        answer = run(project, ["-o", "/dev/null", "-e", f"trace={call}", "-e", inject])
        what = (call, number, how, answer)
        codes[answer.code] += 1
        if how != "signal=KILL":
            assert_clear_or_listed(answer, Fault(call, number, how))
        assert_recovers(project, what, before, done=answer.code == 0)
    return codes


def assert_clear_or_listed(answer: Answer, fault: Fault) -> None:
    """Check that a refusal is one line, or that the answer lists where the text still is."""
    if answer.code == 4 and answer.out:
        assert "not erased: " in answer.out, (fault, answer)
        assert "Traceback" not in answer.err, (fault, answer)
    else:
        assert [] == unclear(fault, answer)


def test_a_redaction_killed_at_any_call_is_finished_by_the_next_writer(tmp_path: Path) -> None:
    """After each kill the ledger is whole, a noted text is not shown, and the next writer erases it."""
    if why_not():
        pytest.skip(why_not())
    codes = suffer(tmp_path, SHARE, "signal=KILL")
    assert {-signal.SIGKILL} == {*codes}
    assert codes[-signal.SIGKILL] >= 30 // SHARE


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_redaction_refused_at_any_call_reports_that(tmp_path: Path, error: str) -> None:
    """A full or failing disk is exit code 4 and a clear line, or the redaction is done; never a false success."""
    if why_not():
        pytest.skip(why_not())
    codes = suffer(tmp_path, 3 * SHARE, f"error={error}")
    assert 4 in codes
    assert {*codes} <= {0, 4}


@contextmanager
def flagged(flag: str, *places: Path) -> Iterator[None]:
    """Give files an attribute of the file system for the duration of a block."""
    named = list(map(str, places))
    tried = subprocess.run(["chattr", f"+{flag}", *named], capture_output=True, check=False)
    try:
        if tried.returncode:
            pytest.skip("this user or file system cannot set file attributes")
        yield
    finally:
        subprocess.run(["chattr", f"-{flag}", *named], capture_output=True, check=False)


needs_chattr = pytest.mark.skipif(shutil.which("chattr") is None, reason="chattr is not installed")


@needs_chattr
def test_an_append_only_log_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The event is recorded, no reader shows the text, the answer lists the log; a writer finishes it later."""
    project = begin_secret(tmp_path)
    before = shown(project)
    log = project.ledger / "events.jsonl"
    words = [
        "--project",
        str(project.root),
        "redact",
        "--text",
        PRIVATE,
        "--reason",
        "it was private",
        "--yes",
        "--expect",
        "3",
    ]
    with flagged("a", log):
        for _ in range(2):
            assert 4 == main.run(words)
            assert f"not erased: {log}" in capsys.readouterr().out
        commands.rate(project, "kpt_001", "neutral", HUMAN)
        assert [log, project.ledger / "erasing"] == sorted(holding(project), reverse=True)
        # One of the texts has two lines, and one is a sealed range.
        assert 4 == len(commands.verify_and_fold(project)[0].redacted)
        assert () == commands.verify_and_fold(project)[0].problems
        assert PRIVATE not in json.dumps([*list_events(project), commands.show(project)])
        commands.check(project)
    assert_recovers(project, "append-only", before, done=True)
    assert 3 == sum(row["kind"] == "event.redacted" for row in list_events(project))


@needs_chattr
def test_a_read_only_project_is_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a read-only project the dry run finds the text, and the redaction is refused with exit code 4."""
    project = begin_secret(tmp_path)
    files = {path: path.read_bytes() for path in project.claude.rglob("*") if path.is_file()}
    words = ["--project", str(project.root), "redact", "--text", PRIVATE]
    with flagged("i", *files, project.ledger, project.claude):
        assert 0 == main.run([*words, "--dry-run"])
        assert 4 == main.run([*words, "--reason", "it was private", "--yes", "--expect", "3"])
    out, err = capsys.readouterr()
    assert ("would be redacted: event" in out, 1) == (True, err.count("\n"))
    assert files == {path: path.read_bytes() for path in project.claude.rglob("*") if path.is_file()}


WRITER = """
import sys
from pathlib import Path
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

project, worker = Project(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    payload = {"new_key_points": [f"{worker} learned {number}"]}
    payload["evaluations"] = [{"name": "kpt_001", "rating": "helpful"}]
    commands.record(project, payload, {"rater": "reflector", "session": worker})
"""
WRITERS = 8
ROUNDS = 4


def test_a_redacted_text_does_not_return(tmp_path: Path) -> None:
    """Eight processes add while one redacts repeatedly: no text returns, nothing is lost, and all verifies."""
    project = three_entries(tmp_path)
    secrets = [f"{TOLD} number {number} of them" for number in range(ROUNDS)]
    commands.record(project, {"new_key_points": [*secrets, *("x" * 9_000 + str(n) for n in range(20))]}, HUMAN)
    workers = [
        subprocess.Popen(
            [sys.executable, "-B", "-c", WRITER, str(project.root), f"w{worker}", str(ROUNDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for worker in range(WRITERS)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert "ready\n" == worker.stdout.readline()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for secret in secrets:
        attempt(project, secret)
    ended = [(worker.communicate()[1], worker.returncode) for worker in workers]
    assert [("", 0)] * WRITERS == ended
    commands.replay(project)
    attempt(project, PRIVATE)
    assert [] == holding(project)
    verdict = commands.verify_and_fold(project)[0]
    assert ((), ROUNDS) == (verdict.problems, len(verdict.redacted))
    assert () == redactions(project)
    commands.check(project)
    shown_texts = [entry["text"] for entry in commands.show(project)["key_points"]]
    learned = {f"w{worker} learned {number}" for worker in range(WRITERS) for number in range(ROUNDS)}
    assert learned <= {*shown_texts}
    assert (ROUNDS, 1 + WRITERS * ROUNDS) == (shown_texts.count("[redacted]"), shown(project)[0][1])


def attempt(project: Project, secret: str) -> None:
    """Redact until the ledger is not locked; a writer may have erased the text in the meantime."""
    for _ in range(50):
        words = [
            "--project",
            str(project.root),
            "redact",
            "--text",
            secret,
            "--reason",
            "it was private",
            "--yes",
            "--expect",
            "1",
        ]
        if main.run(words) != 4:
            return
    pytest.fail("the ledger was held all the while")


def test_a_second_redaction_finishes_an_unfinished_one(tmp_path: Path) -> None:
    """The next redaction erases what an earlier one could not, each with its own reason."""
    project = begin_secret(tmp_path)
    stuck = project.ledger / "odd.txt"
    stuck.write_text("\\u0068unter2-of-the-customer")
    assert 1 == len(redact(project, RedactionTarget(text=PRIVATE), "first", HUMAN).erased.remaining)
    done = redact(project, RedactionTarget(text="Use type"), "second", HUMAN)
    assert any(str(stuck) in line for line in done.erased.remaining)
    stuck.unlink()
    commands.rate(project, "kpt_001", "neutral", HUMAN)
    assert ([], ()) == (holding(project), redactions(project))
    reasons = [row["free"]["reason"] for row in list_events(project) if row["kind"] == "event.redacted"]
    assert ["first", "first", "first", "second"] == reasons
