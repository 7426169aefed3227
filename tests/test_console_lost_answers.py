"""An answer that cannot be written: a verb that has recorded succeeds, a verb that only reads fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
import io
import json
from pathlib import Path
import subprocess
import sys

import pytest

from helpers.events import HUMAN
from tallybook.ledger.codec import decode
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

FULL = Path("/dev/full")
NOTE = f"note: the answer could not be written: No space left on device; {output.RECORDED}\n"
UPDATE = json.dumps({"evaluations": [{"name": "kpt_001", "rating": "helpful"}]})
METRICS = json.dumps({"session_id": "s1", "component": "ac01", "metrics": {"accuracy": 90}})
WRITING = {
    "add": ["add", "Write tests."],
    "rate": ["rate", "kpt_001", "helpful"],
    "record": ["record", "-"],
    "import": ["import", "legacy.json"],
    "retire": ["retire", "kpt_001", "--reason", "old"],
    "restore": ["restore", "kpt_003"],
    "pin": ["pin", "kpt_001"],
    "pin --off": ["pin", "--off", "kpt_002"],
    "reword": ["reword", "kpt_001", "Quote all ids."],
    "merge": ["merge", "kpt_001", "kpt_002"],
    "undo": ["undo"],
    "redact": ["redact", "2", "--reason", "a name"],
    "score record": ["score", "record", "-"],
    "score baseline": ["score", "baseline", "ac01", "--value", "80"],
}
INPUT = {"record": UPDATE, "score record": METRICS}

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.fixture
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with three entries, of which one is pinned and one is retired; it is the current folder."""
    made = Project(project)
    for text in ("Quote ids.", "Name units.", "Run linters."):
        commands.add(made, text, HUMAN)
    assert 0 == main.run(["pin", "kpt_002"])
    assert 0 == main.run(["retire", "kpt_003", "--reason", "old"])
    (project / "legacy.json").write_text('{"key_points": ["Keep commits small."]}', encoding="utf-8")
    monkeypatch.chdir(project)
    return made


@pytest.fixture
def run_full(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that runs a command with an output that takes nothing: its exit code and standard error."""

    def run(*arguments: str, stdin: str = "") -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        full = FULL.open("w", encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", full)
            code = main.run(list(arguments))
        with suppress(OSError):
            full.close()
        return code, capfd.readouterr().err

    return run


def count_events(project: Project) -> int:
    """Return how many events the ledger holds."""
    with closing(open_log(project)) as log:
        return sum(len(batch.events) for batch in decode(log.read()))


@pytest.mark.parametrize("verb", WRITING)
def test_a_recorded_event_with_a_lost_answer_is_no_failure(
    here: Project, run_full: Callable[..., tuple[int, str]], verb: str
) -> None:
    """A verb that records exits with 0, and standard error warns not to send it again."""
    before = count_events(here)
    code, said = run_full(*WRITING[verb], stdin=INPUT.get(verb, ""))
    assert (0, NOTE) == (code, said.splitlines(keepends=True)[-1])
    assert before < count_events(here)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("words", "code"), [(WRITING["rate"], 0), (["rate", "kpt_009", "helpful"], 1), (["show"], 4)])
def test_a_full_standard_error_changes_no_exit_code(words: list[str], code: int) -> None:
    """A verb that records exits with 0 although its note is lost as well; a failure keeps its exit code."""
    with FULL.open("wb") as full:
        command = [sys.executable, "-m", "tallybook", *words]
        assert code == subprocess.run(command, stdout=full, stderr=full, check=False).returncode


@pytest.mark.usefixtures("here")
def test_a_lost_answer_of_a_reading_verb_is_a_failure(run_full: Callable[..., tuple[int, str]]) -> None:
    """A verb that only reads exits with 4 if its answer is lost."""
    assert (4, "tallybook: system: No space left on device\n") == run_full("show", "--json")
