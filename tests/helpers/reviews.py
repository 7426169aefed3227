"""Reviews: a command at a pseudo-terminal, sessions that were given entries, and the items of a review."""

from __future__ import annotations

from contextlib import closing
import json
import os
from pathlib import Path
import pty
import select
import subprocess
import sys
import termios
import time
from typing import Any

from helpers.commands import Run
from helpers.events import make_injection
from tallybook.ledger import clock
from tallybook.ledger.codec import encode
from tallybook.ledger.events import Event, TranscriptRead
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace.project import Project

MAIN = "from tallybook.__main__ import main; main()"
WAIT_S = 20
DAY_US = 24 * 3600 * clock.MICROSECONDS


class Terminal:
    """A command at a pseudo-terminal: it is shown what it prints, and presses keys."""

    def __init__(self, here: Path, *words: str) -> None:
        """Start a command of Tallybook in a project."""
        self.leader, follower = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", MAIN, "--project", str(here), *words],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=os.environ | {"TERM": "dumb"},
            start_new_session=True,
        )
        os.close(follower)

    def wait_for(self, text: str) -> str:
        """Wait until a text is shown, and return everything before it that was not returned yet."""
        end = time.monotonic() + WAIT_S
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            self._read()
        before, _, self.shown = self.shown.partition(text)
        return before

    def press(self, keys: str) -> None:
        """Press keys, once the command reads single keys: what was typed before is discarded."""
        end = time.monotonic() + WAIT_S
        while termios.tcgetattr(self.leader)[3] & termios.ICANON:
            assert time.monotonic() < end, self.shown
            time.sleep(0.01)
        self.enter(keys)

    def enter(self, text: str) -> None:
        """Type a text at once."""
        os.write(self.leader, text.encode())

    def end(self) -> tuple[int, str]:
        """Wait until the command ends, and return its exit code and the rest of its output."""
        end = time.monotonic() + WAIT_S
        while self._read():
            assert time.monotonic() < end, self.shown
        os.close(self.leader)
        return self.process.wait(WAIT_S), self.shown

    def _read(self) -> bool:
        try:
            # `select` takes no descriptor above 1,023.
            poll = select.poll()
            poll.register(self.leader, select.POLLIN)
            assert poll.poll(WAIT_S * 1_000), self.shown
            piece = os.read(self.leader, 65_536)
        except OSError:  # Linux answers so once the process has ended.
            return False
        self.shown += piece.decode().replace("\r\n", "\n")
        return bool(piece)


def events(run: Run, kind: str = "") -> list[dict[str, Any]]:
    """Return the events of a kind, or all."""
    found = [json.loads(line) for line in run("log", "--json").out.splitlines()]
    return [item for item in found if kind in {"", item["kind"]}]


def items(run: Run) -> list[tuple[str, list[str]]]:
    """Return what a review would show, as why and names."""
    return [(load["why"], load["names"]) for load in json.loads(run("review", "--json").out)]


def record(here: Path, *some: Event, session: str = "", rater: str = "tallybook", at: str = "") -> None:
    """Append events as a batch of a session, at a time if one is given."""
    log = open_log(Project(here))
    if at:
        log.now = lambda: clock.moment(clock.to_unix_us(at))
    by = {"rater": rater} | ({"session": session} if session else {})
    with closing(log), log.transaction() as tx:
        tx.append([encode(event) for event in some], by)


def give(here: Path, *names: str, sessions: int = 10, seen: bool = True) -> None:
    """Give entries to sessions; where citations are seen, the transcripts are then read."""
    for number in range(sessions):
        read = (TranscriptRead("", 0, 9, 9, "", "none"),) if seen else ()
        record(here, make_injection(names, 0), *read, session=f"s{number}")
