"""One query over the verified ledger and its views, without access to anything else; and other tools on the file."""

from __future__ import annotations

from collections.abc import Sequence
import json
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from helpers.documentation import COMMANDS, examples, section
from helpers.events import list_events
from helpers.reference_model import extraction
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.history import moments, sql
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, curation

COUNTING = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t)"
HUMAN = {"rater": "human", "session": "s1"}
TEXT = 'a "quoted"\ttext, 🎉, \x00 and \u2028 ' + "x" * 30_000
"""Longer than a line of the ledger may be, so that it is continued on others."""


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with a pruned entry, one whose rating was undone, and one with a long text."""
    place = Project(project)
    commands.record(place, extraction(new=["Use type hints", "Mock the clock", TEXT]), HUMAN)
    commands.record(place, extraction(*[("kpt_001", "harmful")] * 3), {"rater": "reflector", "session": "s2"})
    commands.rate(place, "kpt_002", "helpful", {"rater": "agent"})
    curation.undo(place, None, None, "misread", HUMAN)
    return place


def ask(project: Project, query: str, when: str | None = None) -> list[tuple[Any, ...]]:
    """Return the rows that a query answers."""
    _, *rows = sql.query(project, query, moments.find(project, when) if when else None)
    return rows


def test_every_event_is_a_row(here: Project) -> None:
    """Rows are in the order of `log`, with author, content, whole texts and JSON; undone events are marked."""
    logged = list(list_events(here))
    rows = ask(here, "SELECT seq, id, kind, v, rater, session, body, free FROM events ORDER BY seq")
    assert [
        (
            *map(row.get, ("seq", "id", "kind", "v")),
            *map(row["by"].get, ("rater", "session")),
            row["body"],
            row.get("free"),
        )
        for row in logged
    ] == rows
    assert [(row["at"],) for row in logged] == ask(here, "SELECT at FROM events ORDER BY seq")
    assert [("point.rated",), ("playbook.updated",)] == ask(here, "SELECT kind FROM events WHERE void ORDER BY seq")


@pytest.mark.parametrize("table", [*sql.COLUMNS, *sql.VIEWS])
def test_every_table_is_described(here: Project, table: str) -> None:
    """SQLite's own list names every table, and table_info its columns; the reference names each table."""
    assert (table,) in ask(here, "SELECT name FROM sqlite_master")
    described = [row[1] for row in ask(here, f"PRAGMA table_info({table})")]
    assert list(sql.COLUMNS.get(table, described)) == described
    assert f"`{table}`" in section(COMMANDS, "SQL")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT readfile('{file}')",
        "SELECT load_extension('{file}')",
        "SELECT length(zeroblob(1000000000))",
        "SELECT length(randomblob(1000000000))",
        "ATTACH '{file}.db' AS other",
        "VACUUM INTO '{file}.db'",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA temp_store_directory = '/'",
        "DELETE FROM events",
        "CREATE TABLE mine (i INT)",
        "INSERT INTO points (name) VALUES ('x')",
        "SELECT 1; SELECT 2",
        "",
        "selct 1",
        "SELECT json('stop')",
        "SELECT '\x00' FROM",
    ],
)
def test_a_statement_other_than_a_query_is_refused(
    here: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    """A file, address, setting, write, second statement or mistake gets one line and exit 2, and leaves no trace."""
    file = tmp_path / "secret.txt"
    file.write_text("a,b\nsecret,1\n", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    assert 2 == main.run(["sql", query.format(file=file)])
    printed = capsys.readouterr()
    assert ("", 1) == (printed.out, printed.err.count("\n"))
    assert printed.err.startswith("tallybook: the query: ")
    assert "secret," not in printed.err
    assert before == sorted(tmp_path.rglob("*"))
    assert here.playbook.exists()


@pytest.mark.parametrize("query", [f"{COUNTING} SELECT max(i) FROM t"])
def test_an_endless_query_is_ended(here: Project, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    """A query that does not end by itself is refused after the limit."""
    monkeypatch.setattr(sql, "LIMIT_S", 0.05)
    with pytest.raises(BadInputError, match=r"the query: takes longer than 0\.05 seconds; ask for less"):
        ask(here, query)


def test_an_interrupted_query_ends_like_any_command(here: Project) -> None:
    """Ctrl-C during a query exits with 130 and one line."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tallybook", "--project", here.root, "sql", f"{COUNTING} SELECT max(i) FROM t"],
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        # Long enough for any machine to be in the query; an interrupt before it has the same answer.
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        assert "tallybook: interrupted\n" == process.stderr.read()
    assert 130 == process.returncode


# Other tools on the file itself


def documented(begins: str) -> list[str]:
    """Return the documented commands that begin with a word, as arguments of a shell."""
    blocks = "\n".join(block.code for block in examples("sh")).replace("\\\n", "")
    return [line for line in blocks.splitlines() if line.startswith(f"{begins} ")]


def lines_of(command: str, cwd: Path) -> Sequence[str]:
    """Return the lines that a documented command prints, which must succeed."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=cwd)
    assert ("", 0) == (done.stderr, done.returncode)
    return done.stdout.removesuffix("\n").split("\n")


@pytest.fixture
def worn(here: Project) -> Project:
    """Return the project with a redacted text, and with sealed bytes in its ledger that are not JSON."""
    assert 0 == main.run(["redact", "2", "--reason", "a name"])
    with (here.ledger / "events.jsonl").open("ab") as file:
        file.write(b'{"crc":"0000' + b"\x00" * 5000 + b"\n" + b"\xff" * 10)
    commands.add(here, "learned later", HUMAN)
    assert "log.recovered" in [row["kind"] for row in list_events(here)]
    return here


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_jq_reads_the_file_as_documented(worn: Project) -> None:
    """Raw TABs, a redacted text, texts over several lines and sealed bytes do not break it."""
    counts, texts = documented("jq")
    rated = [json.loads(line) for line in lines_of(counts, worn.root)]
    assert [["kpt_001", "harmful"]] * 3 + [["kpt_002", "helpful"]] == rated
    said = [json.loads(line)["text"] for line in lines_of(texts, worn.root)]
    assert ["Mock the clock", TEXT, "learned later"] == said
