"""A project and a home folder at a fixed moment, in which commands run and their answers are compared."""

from __future__ import annotations

from contextlib import contextmanager
import itertools
import os
import time
from typing import TYPE_CHECKING

from tape.ledgers import BEGIN_US, TAPE_US, Do

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from helpers.command_line import Run

HOUR_US = 3600 * 1_000_000
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

    def take(self, step: Do) -> None:
        """Take one step towards a ledger."""
        self.now_us += step.hours * HOUR_US
        if step.words:
            code, _, err = self.answer(list(step.words), step.stdin)
            assert 0 == code, (step.words, err)
            return
        path = self.project / step.file
        path.parent.mkdir(parents=True, exist_ok=True)
        old, new = step.change or (None, b"")
        if old is None:
            path.unlink()
        elif old:
            path.write_bytes(path.read_bytes().replace(old, new, 1))
        else:
            path.write_bytes((path.read_bytes() if path.exists() else b"") + new)

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
