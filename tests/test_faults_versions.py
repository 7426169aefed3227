"""Two releases of Tallybook on one ledger: the older one keeps unknown events, and neither damages the other's."""

from __future__ import annotations

from collections.abc import Mapping
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

import attrs
import pytest

from helpers.commands import ROOT, lay_out

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
from tallybook.projections.surfaces import commands
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


def events(project: Path) -> bytes:
    """Return the log."""
    return (project / ".claude" / "ledger" / "events.jsonl").read_bytes()


def helpful(release: Release) -> dict[str, int]:
    """Return the helpful counts that a release shows."""
    return {point["name"]: point["helpful"] for point in release.answer("show")["key_points"]}


def test_an_earlier_release_takes_turns(present: Release, project: Path) -> None:
    """It keeps an unknown kind byte for byte, counts the known ones, and both releases verify the ledger."""
    earlier = release(project, "earlier", EARLIER_KINDS)
    for number, turn in enumerate((present, earlier, present, earlier)):
        before = events(project) if number else b""
        turn.run("rate", "kpt_001", "helpful") if number else turn.run("add", "The first")
        assert events(project).startswith(before)
        assert {"kpt_001": number, "kpt_002": 0, "kpt_003": 0} == helpful(earlier) == helpful(present)
        for reader in (present, earlier):
            reader.run("replay", "--check")
    assert {} == present.answer("verify")["unknown_kinds"]
    assert {"item.skipped/1": 1} == earlier.answer("verify")["unknown_kinds"]
    assert 1 == events(project).count(b'"kind":"item.skipped"')


def test_a_later_release_takes_turns(present: Release, project: Path) -> None:
    """The present release ignores and keeps a newer kind and version, and the later one still counts them."""
    later = release(project, "later", LATER_KINDS)
    present.run("add", "The first")
    later.run("rate", "kpt_001", "helpful")
    note = later.start(NOTE, str(project / ".claude" / "ledger"), "s1", "s2")
    assert ("", "") == note.communicate()
    before = events(project)
    present.run("rate", "kpt_002", "helpful")
    assert events(project).startswith(before)
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
