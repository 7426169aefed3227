"""One query over the verified ledger and its views, without access to anything else; and other tools on the file."""

from __future__ import annotations

import json
from pathlib import Path
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.documentation import COMMANDS, examples, section
from helpers.reference_model import extraction
from tallybook.ledger.errors import BadInputError
from tallybook.projections import sql_tables
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.console import tables
from tallybook.projections.surfaces.history import sql
from tallybook.projections.surfaces.workspace.installation import install_command
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from collections.abc import Sequence

duckdb = pytest.importorskip("duckdb")
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
    return list(sql.query(project, query, when).rows)


def test_every_event_is_a_row(here: Project) -> None:
    """Rows are in the order of `log`, with author, content, whole texts and JSON; undone events are marked."""
    logged = list(commands.list_events(here))
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
    assert [(f"{row['at']}",) for row in logged] == [
        (f"{at}Z",) for (at,) in ask(here, 'SELECT "at" FROM events ORDER BY seq')
    ]
    assert [("point.rated",), ("playbook.updated",)] == ask(here, "SELECT kind FROM events WHERE void ORDER BY seq")


def test_the_playbook_and_the_graveyard_are_tables(here: Project) -> None:
    """They have the entries of `show` and `graveyard`, in the same order."""
    shown = [tuple(point.values()) for point in commands.show(here)["key_points"]]
    assert shown == ask(here, "SELECT name, text, helpful, harmful FROM points")
    assert [("kpt_001", 3, "pruned", "reflector", "s2")] == ask(
        here, "SELECT name, harmful, status, rater, session FROM graveyard"
    )


def test_ratings_and_sessions_are_tables(here: Project) -> None:
    """Each rating is a row, undone ones marked; each session is a row with its counts."""
    ratings = ask(here, "SELECT name, rating, rater, void, count(*) FROM ratings GROUP BY ALL ORDER BY name")
    assert [("kpt_001", "harmful", "reflector", False, 3), ("kpt_002", "helpful", "agent", True, 1)] == ratings
    sessions = ask(here, "SELECT session, events, ratings, learned, cited FROM sessions")
    assert [("s1", 5, 0, 3, 0), ("s2", 4, 3, 0, 0)] == sessions


def test_a_moment_of_the_past_can_be_queried(here: Project) -> None:
    """With a WHEN the tables are those of that moment, with events that were undone later."""
    heads = [ask(here, "SELECT max(seq) FROM events WHERE NOT void", when)[0][0] for when in ("8", None)]
    logged = list(commands.list_events(here))
    assert [8, logged[-1]["seq"]] == heads
    assert [("kpt_001",)] == ask(here, "SELECT name FROM points WHERE text ILIKE '%hints'", "8")


@pytest.mark.parametrize("table", [*sql_tables.COLUMNS, *sql_tables.VIEWS])
def test_every_table_is_described(here: Project, table: str) -> None:
    """SHOW and DESCRIBE list the tables; the reference names each."""
    assert (table,) in ask(here, "SHOW TABLES")
    described = [row[0] for row in ask(here, f"DESCRIBE {table}")]
    assert list(sql_tables.COLUMNS.get(table, described)) == described
    assert f"`{table}`" in section(COMMANDS, "SQL")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM logged",
        "FROM project",
        "COPY events TO '{file}.csv'",
        "ATTACH '{file}.db'",
        "EXPORT DATABASE '{file}.d'",
        "INSTALL httpfs",
        "SELECT * FROM 'https://localhost:9/x.csv'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "DELETE FROM events",
        "CREATE TABLE mine (i INT)",
        "INSERT INTO points (name) VALUES ('x')",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM events",
        "",
        "/* nothing */",
        "selct 1",
        "SELECT nope FROM events",
        "SELECT error('stop')",
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


def test_an_error_in_the_middle_of_an_answer_is_one_line(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows before it are printed; the exit code shows that some are missing."""
    del here
    query = "SELECT CASE WHEN i = 50000 THEN error('stop') ELSE i END FROM range(60000) t(i)"
    assert 2 == main.run(["sql", query, "--json"])
    assert 1 == capsys.readouterr().err.count("\n")


@pytest.mark.parametrize("query", ["SELECT when, kind FROM events", "SELECT max(when) FROM ratings"])
def test_a_reserved_word_of_sql_is_named(here: Project, query: str) -> None:
    """The ledger's own names for times need double quotes, and an error without them says so."""
    with pytest.raises(BadInputError, match='put the columns "at" and "when" in double quotes'):
        ask(here, query)


def test_an_answer_in_json_is_an_object_a_line(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A value of any column type becomes JSON; columns with equal names get numbers."""
    del here
    values = {
        "1": 1,
        "1.5": 1.5,
        "3.0::DECIMAL(4,1)": 3,
        "'é 🎉'": "é 🎉",
        "NULL": None,
        "true": True,
        "'nan'::DOUBLE": "nan",
        "DATE '2026-11-21'": "2026-11-21",
        "TIMESTAMP '2026-11-21 20:17:03.5'": "2026-11-21T20:17:03.500000",
        "INTERVAL 90 MINUTE": 5400.0,
        "[1, NULL]": [1, None],
        "{'a': DATE '2026-11-21'}": {"a": "2026-11-21"},
        "'{\"a\": [1]}'::JSON": {"a": [1]},
        "'\\x01'::BLOB": "01",
        "2::HUGEINT ** 3": 8.0,
        "170141183460469231731687303715884105727": 2**127 - 1,
        "'00000000-0000-0000-0000-000000000007'::UUID": "00000000-0000-0000-0000-000000000007",
    }
    chosen = ", ".join(f"{expression} AS a" for expression in values)
    assert 0 == main.run(["sql", f"FROM range(2) SELECT {chosen}", "--json"])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == second
    assert ["a", *(f"a_{number}" for number in range(1, len(values)))] == list(first)
    assert list(values.values()) == list(first.values())


def test_times_with_a_zone_are_shown_in_utc(
    here: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine's zone does not matter; alone, in lists and among other columns, without another library."""
    del here
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setitem(sys.modules, "pytz", None)
    zoned = "TIMESTAMPTZ '2026-01-01 12:00:00+02'"
    query = f"SELECT {zoned} AS t, [{zoned}] AS l, {{'a': {zoned}}} AS s, 1 AS t, '[1]'::JSON AS j; -- done"
    assert 0 == main.run(["sql", query, "--json"])
    time = "2026-01-01T10:00:00"
    assert {"t": time, "l": [time], "s": {"a": time}, "t_1": 1, "j": [1]} == json.loads(capsys.readouterr().out)
    assert 0 == main.run(["sql", 'SELECT count(*) AS past FROM events WHERE "at" <= now()', "--json"])
    assert capsys.readouterr().out.startswith('{"past": ')


def test_no_progress_bar_is_printed_into_an_answer(here: Project) -> None:
    """DuckDB would print the progress of a slow query to standard output."""
    assert [(False,)] == ask(here, "SELECT current_setting('enable_progress_bar')")


@pytest.mark.parametrize(
    ("kind", "message"), [(RuntimeError, "Query interrupted"), (duckdb.InterruptException, "INTERRUPT Error")]
)
def test_an_interrupted_query_ends_like_any_command(
    here: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type[Exception],
    message: str,
) -> None:
    """An interrupt exits with 130; another error of DuckDB without a class is not taken for one."""
    del here
    # Made anew each time: one that lives as long as the test's parameters keeps each frame that it passed, and with
    # them DuckDB's objects and pytest's files, open to the end of the process.
    said_now: list[tuple[type[Exception], str]] = [(kind, message)]

    def refuse(*_: object) -> None:
        raised, text = said_now[0]
        raise raised(text)

    monkeypatch.setattr(sql, "_check", refuse)
    assert 130 == main.run(["sql", "SELECT 1"])
    assert "tallybook: interrupted\n" == capsys.readouterr().err
    said_now[0] = (RuntimeError, "something else")
    with pytest.raises(RuntimeError, match="something else"):
        main.run(["sql", "SELECT 1"])


def test_people_see_a_table_of_so_many_rows(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns have their names, and a note counts further rows; JSON has all of them."""
    del here
    assert 0 == main.run(["sql", f"FROM range({tables.MAX_ROWS + 5}) t(i) SELECT i AS number, NULL AS nothing"])
    printed = capsys.readouterr()
    assert ["number", "nothing"] == printed.out.split()[:2]
    assert ["999", "NULL"] == printed.out.split()[-2:]
    assert "note: only 1,000 rows are shown; use --json for all rows\n" == printed.err
    assert 0 == main.run(["sql", "SELECT i FROM range(25000) t(i)", "--json"])
    assert 25_000 == capsys.readouterr().out.count("\n")


def test_wide_rows_are_blocks_and_an_empty_answer_names_its_columns(
    here: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row that is too wide is printed column by column; an empty answer names its columns."""
    del here
    main.run(["sql", "SELECT * FROM events ORDER BY seq LIMIT 1"])
    lines = capsys.readouterr().out.splitlines()
    assert ["row 1", "seq      1", "kind     ledger.opened"] == [lines[0], lines[1], lines[5]]
    main.run(["sql", "SELECT name, text FROM points WHERE false"])
    assert "no rows of name, text\n" == capsys.readouterr().out


def test_a_query_can_be_read_from_standard_input(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """With `-` all of standard input is the query."""
    command = [
        sys.executable,
        "-c",
        "from tallybook.projections.surfaces.entry_point import main; main()",
        "--project",
        str(here.root),
    ]
    done = subprocess.run(
        [*command, "sql", "-", "--json"],
        input="SELECT count(*) AS entries\nFROM points",
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert ('{"entries": 2}\n', "", 0) == (done.stdout, done.stderr, done.returncode)
    assert "" == capsys.readouterr().out


def test_without_the_extra_the_error_names_it(
    here: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without DuckDB one line says how to install it, before anything is read."""
    del here
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert 2 == main.run(["sql", "SELECT 1"])
    hint = f"run: {install_command('duckdb')}"
    assert f"sql: needs the package duckdb, which is not installed; {hint}\n" in capsys.readouterr().err


def test_a_damaged_ledger_answers_no_query(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A ledger that does not verify is not queried."""
    log = here.ledger / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"rating":"harmful"', b'"rating":"helpful"', 1))
    assert 3 == main.run(["sql", "SELECT count(*) FROM events"])
    assert "" == capsys.readouterr().out


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
    assert "log.recovered" in [row["kind"] for row in commands.list_events(here)]
    return here


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_jq_reads_the_file_as_documented(worn: Project) -> None:
    """Raw TABs, a redacted text, texts over several lines and sealed bytes do not break it."""
    counts, texts = documented("jq")
    rated = [json.loads(line) for line in lines_of(counts, worn.root)]
    assert [["kpt_001", "harmful"]] * 3 + [["kpt_002", "helpful"]] == rated
    said = [json.loads(line)["text"] for line in lines_of(texts, worn.root)]
    assert ["Mock the clock", TEXT, "learned later"] == said


def test_duckdb_reads_the_file_as_documented(worn: Project) -> None:
    """The query that the documentation gives for DuckDB's own command counts the events of the file."""
    (command,) = documented("duckdb")
    query = re.search(r'"(.*)"$', command, re.DOTALL)
    assert query is not None
    path = str(worn.ledger / "events.jsonl")
    said = query[1].replace(".claude/ledger/events.jsonl", path).replace('\\"', '"')
    assert [("kpt_001", "harmful", 3), ("kpt_002", "helpful", 1)] == duckdb.connect().execute(said).fetchall()
