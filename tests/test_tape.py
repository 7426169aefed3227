"""What every verb answers on fixed ledgers, and commands in a row, is what the tape holds.

`TAPE=answers` before pytest records the answers anew; a commit that changes one says why. `TAPE=ledgers` makes the
ledgers that have no file yet. In `tape/scores` are the answers of the verbs of scores, which
`tests/test_scores_verb.py` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
import itertools
import json
import os
from pathlib import Path
import re
import shlex
import shutil
import subprocess
import time

import pytest

from helpers.commands import Run
from helpers.shared_machines import make_pair

TAPE = Path(__file__).parent / "tape"
MODE = os.environ.get("TAPE", "")
# What is drawn at random while a verb runs: ids, and chains that cover them.
ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
CHAIN = r"(?<=:)[0-9a-f]{32}|(?<=[:\"])[\w-]{21}[AQgw](?![\w-])"
DRAWN = re.compile(f"{ID}|{CHAIN}")
MAX_ANSWER_CHARS = 20_000
SECTION = re.compile(r"(?m)^== ")


def sections_of(path: Path) -> dict[str, str]:
    """Return the sections of a file of the tape: title → text."""
    return dict(section.split("\n", 1) for section in SECTION.split(path.read_text(encoding="utf-8"))[1:])


LEDGERS = sections_of(TAPE / "ledgers.txt")
VERBS = {title: [*filter(None, text.split("\n"))] for title, text in sections_of(TAPE / "verbs.txt").items()}
STORIES = TAPE / "stories"

HOUR_US = 3600 * 1_000_000
MINUTE_US = HOUR_US // 60
BEGIN_US = 1_767_264_000_000_000
"""1 January 2026, 10:40 UTC: the moment of the first command."""
TAPE_US = BEGIN_US + 90 * 24 * HOUR_US
"""When the verbs of the tape run."""
# Files that no answer may depend on.
NOT_STORED = (".cache", "lock", ".gitignore", "hook-error")


@contextmanager
def standard_input(path: Path) -> Iterator[None]:
    """Have a file as this process's standard input."""
    before, file = os.dup(0), os.open(path, os.O_RDONLY)
    try:
        os.dup2(file, 0)
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(file)


class Stage:
    """A project and a home folder at a moment of the tape, in which commands run."""

    def __init__(self, folder: Path, run: Run, patch: pytest.MonkeyPatch) -> None:
        """Make the folders and enter the project, at the moment when the first ledger began."""
        self.folder, self.run, self.patch = folder, run, patch
        self.project = folder / "project"
        (self.project / ".claude").mkdir(parents=True)
        (folder / "home").mkdir()
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("USERPROFILE", str(folder / "home"))
        patch.setenv("CLAUDE_PROJECT_DIR", str(self.project))
        patch.setenv("COLUMNS", "100")
        patch.chdir(self.project)
        # A worker that a hook started would still write.
        patch.setattr(os, "posix_spawn", lambda *_, **__: 0)
        self.now_us = BEGIN_US
        patch.setattr(time, "time_ns", lambda: self.now_us * 1000)
        patch.setattr(time, "time", lambda: self.now_us / 1e6)

    def answer(self, words: list[str], stdin: str = "") -> tuple[int, str, str]:
        """Return exit code, standard output and error of a command, with this machine's folders left out."""
        drawn = itertools.count()
        given = self.folder / "stdin"
        given.write_text(stdin.replace("PROJECT", str(self.project)))
        # A hook reads the descriptor.
        with self.patch.context() as patch, standard_input(given):
            patch.setattr(os, "urandom", lambda size: (next(drawn) * 0x9E3779B97F4A7C15).to_bytes(80, "big")[-size:])
            code, out, err = self.run(*words, stdin=given.read_bytes())
        given.unlink()
        return code, self.without_folders(out), self.without_folders(err)

    def without_folders(self, text: str) -> str:
        """Return a text without the places of this machine."""
        return text.replace(str(self.project), "PROJECT").replace(str(self.folder), "FOLDER")

    def store(self) -> dict[str, str]:
        """Return the text of every file, by its path; bytes that are no UTF-8 are escaped as Python does it."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes().decode(errors="surrogateescape")
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not any(name in NOT_STORED for name in path.parts)
        }

    def load(self, files: dict[str, str]) -> None:
        """Write the files of a stored ledger, and set the clock to the moment of the tape."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode(errors="surrogateescape"))
        self.now_us = TAPE_US

    def log_bytes(self) -> bytes:
        """Return the bytes of the log."""
        path = self.project / ".claude" / "ledger" / "events.jsonl"
        return path.read_bytes() if path.exists() else b""

    def playbook(self) -> str:
        """Return the rendered playbook, and what names the file where it is missing."""
        path = self.project / ".claude" / "playbook.json"
        return path.read_text(errors="surrogateescape") if path.exists() else "(no file)\n"


@pytest.fixture
def enter(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Stage]:
    """Return a function that makes a new stage, and removes the one before it."""

    def make() -> Stage:
        folder = tmp_path / "stage"
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(folder, ignore_errors=True)
        return Stage(folder, run, monkeypatch)

    return make


def shorten(text: str) -> list[str]:
    """Return the lines of an answer; of a long one the first, and a digest of the whole."""
    if len(text) <= MAX_ANSWER_CHARS:
        return text.splitlines()
    whole = sha256(DRAWN.sub("<drawn>", text).encode()).hexdigest()
    return [*text[:MAX_ANSWER_CHARS].splitlines(), f"… {len(text):,} characters in all, SHA-256 {whole}"]


def record(name: str, files: dict[str, str], enter: Callable[[], Stage]) -> str:
    """Return the tape of a ledger: what each verb answers on it, and the playbook where a verb changes it."""
    known = set(DRAWN.findall("\n".join(files.values())))
    lines: list[str] = []

    def note(stage: Stage, line: str, stdin: str = "") -> None:
        code, out, err = stage.answer(shlex.split(line), stdin)
        lines.append(f"$ tallybook {line}" + (f" < {stdin}" if stdin else ""))
        lines.extend(shorten(out))
        lines.extend(f"! {text}" for text in err.splitlines())
        if code:
            lines.append(f"[exit {code}]")

    stage = enter()
    stage.load(files)
    for line in (*VERBS["reading"], *VERBS.get(f"reading {name}", [])):
        note(stage, line)
    more = VERBS.get(f"writing {name}", [])
    for whole in (*VERBS["writing"], *more):
        line, _, stdin = whole.partition(" < ")
        stage = enter()
        stage.load(files)
        (stage.project / "points.json").write_text(stdin)
        before, log = stage.playbook(), stage.log_bytes()
        note(stage, line, stdin)
        if whole in more and log != stage.log_bytes():
            lines.append("[the log changed]")
        if before != stage.playbook():
            lines.extend(f"> {text}" for text in stage.playbook().splitlines())
    text = "\n".join(lines) + "\n"
    return DRAWN.sub(lambda match: match[0] if match[0] in known else "<drawn>", text)


def play(stage: Stage, line: str) -> tuple[int, str, str]:
    """Run a line of a story a minute after the one before it: a command in this process, any other by the shell.

    Before a command variables may be set, and after it ``<<< TEXT`` or ``< FILE`` is its standard input. ``wait HOURS``
    moves the clock, and ``edit FILE OLD NEW`` replaces bytes of a file.
    """
    stage.now_us += MINUTE_US
    line = line.replace("FOLDER", str(stage.folder))
    words = shlex.split(line)
    if words[0] == "wait":
        stage.now_us += int(words[1]) * HOUR_US
        return 0, "", ""
    if words[0] == "edit":
        path = stage.project / words[1]
        path.write_bytes(path.read_bytes().replace(words[2].encode(), words[3].encode()))
        return 0, "", ""
    variables = list(itertools.takewhile(lambda word: re.match("[A-Z_]+=", word), words))
    if words[len(variables)] != "tallybook":
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, cwd=stage.project)
        return done.returncode, stage.without_folders(done.stdout), stage.without_folders(done.stderr)
    stdin = ""
    if words[-2:-1] in (["<<<"], ["<"]):
        *words, sign, given = words
        stdin = given if sign == "<<<" else (stage.project / given).read_bytes().decode()
    with stage.patch.context() as patch:
        for variable in variables:
            patch.setenv(*variable.split("=", 1))
        return stage.answer(words[len(variables) + 1 :], stdin)


def steps_to(name: str) -> list[str]:
    """Return the steps that led to a ledger, those of the one that it goes on from included."""
    steps: list[str] = []
    for line in re.findall(r"(?m)^\$ (.*)$", LEDGERS[name]):
        steps += steps_to(line.removeprefix("after ")) if line.startswith("after ") else [line]
    return steps


def make(steps: list[str], enter: Callable[[], Stage]) -> dict[str, str]:
    """Return the files that steps an hour apart lead to."""
    stage = enter()
    for step in steps:
        stage.now_us += HOUR_US - MINUTE_US
        code, _, err = play(stage, step)
        assert 0 == code, (step, err)
    return stage.store()


def make_shared(enter: Callable[[], Stage]) -> dict[str, str]:
    """Return the files of a machine that shares a book with another one, and has a rating that is pending."""
    stage = enter()
    moments = itertools.count(BEGIN_US * 1000, HOUR_US * 1000)
    with stage.patch.context() as patch:
        patch.setattr(time, "time_ns", lambda: next(moments))
        anna, _ = make_pair(stage.folder / "machines")
    shutil.copytree(anna.project.root, stage.project, dirs_exist_ok=True)
    shutil.rmtree(stage.folder / "machines")
    return stage.store()


def compare(name: str, files: dict[str, str], enter: Callable[[], Stage]) -> None:
    """Hold the answers on a ledger against its tape; record them where that was asked for."""
    answers = TAPE / "answers" / f"{name}.txt"
    tape = record(name, files, enter)
    if MODE:
        answers.write_text(tape, encoding="utf-8", errors="surrogateescape")
    assert answers.read_text(encoding="utf-8", errors="surrogateescape") == tape


@pytest.mark.parametrize("name", LEDGERS)
def test_every_verb_answers_as_on_the_tape(name: str, enter: Callable[[], Stage]) -> None:
    """On a fixed ledger each verb prints, answers as JSON, exits and renders as the tape says."""
    ledger = TAPE / "ledgers" / f"{name}.json"
    if MODE == "ledgers" and not ledger.exists():
        ledger.write_text(json.dumps(make(steps_to(name), enter), indent=1) + "\n", encoding="utf-8")
    files: dict[str, str] = json.loads(ledger.read_text(encoding="utf-8"))
    compare(name, files, enter)


def test_every_verb_answers_in_a_shared_project_as_on_the_tape(enter: Callable[[], Stage]) -> None:
    """On a machine of a book events have own numbers and numbers of the book, and moments are of both kinds."""
    ledger = TAPE / "ledgers" / "shared.json"
    if MODE == "ledgers" and not ledger.exists():
        ledger.write_text(json.dumps(make_shared(enter), indent=1) + "\n", encoding="utf-8")
    files: dict[str, str] = json.loads(ledger.read_text(encoding="utf-8"))
    compare("shared", files, enter)
    # By such numbers views order the events of both logs; nobody sees them.
    answers = (TAPE / "answers" / "shared.txt").read_text(encoding="utf-8", errors="surrogateescape")
    assert [] == re.findall(r"\b[12]0{5,}\d+", answers)


def test_every_verb_answers_on_ten_thousand_events_as_on_the_tape(enter: Callable[[], Stage]) -> None:
    """A long ledger, made anew for each run, answers as the tape says."""
    ratings = [
        {"name": f"kpt_{number % 40 + 1:03d}", "rating": "harmful" if number % 5 == number % 40 % 5 == 0 else "helpful"}
        for number in range(495)
    ]
    result = shlex.quote(json.dumps({"evaluations": ratings}))
    steps = [f"tallybook add 'Rule {number} of forty.'" for number in range(1, 41)]
    steps += [f"tallybook record - --session r{number} <<< {result}" for number in range(20)]
    compare("ten-thousand", make(steps, enter), enter)


@pytest.mark.parametrize(
    ("file", "title"),
    [
        (path.stem, section.partition("\n")[0])
        for path in sorted(STORIES.glob("*.txt"))
        for section in SECTION.split(path.read_text(encoding="utf-8"))[1:]
    ],
)
def test_a_story_goes_as_on_the_tape(file: str, title: str, enter: Callable[[], Stage]) -> None:
    """The commands of each section answer as the file says, in a project that is empty at first."""
    path = STORIES / f"{file}.txt"
    first, *sections = SECTION.split(path.read_text(encoding="utf-8"))
    (index,) = [number for number, section in enumerate(sections) if section.partition("\n")[0] == title]
    stage = enter()
    lines = [title]
    for line in sections[index].splitlines()[1:]:
        if line.startswith("$ "):
            code, out, err = play(stage, line[2:])
            lines += [line, *shorten(out), *(f"! {text}" for text in err.splitlines())]
            lines += [f"[exit {code}]"] if code else []
    told = DRAWN.sub("<drawn>", "\n".join(lines)) + "\n" * (2 if index + 1 < len(sections) else 1)
    if MODE:
        path.write_text("== ".join([first, *sections[:index], told, *sections[index + 1 :]]), encoding="utf-8")
    else:
        assert sections[index] == told
