"""`log`: rows of plain JSON, combined filters, little decoding, and following what is appended."""

from __future__ import annotations

from collections.abc import Sequence
import json
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from helpers.commands import CommandResult, Run
from helpers.documentation import COMMANDS, examples, section
from helpers.events import HUMAN, list_events
from helpers.ledger_codec import sample
from helpers.memory_log import MemoryLog
from helpers.reference_model import extraction
from helpers.view_histories import KNOWN
from tallybook.ledger import damage, scan, search, verification
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.errors import BadInputError, UnknownEntryError
from tallybook.ledger.events import EVENT_TYPES, PointRated
from tallybook.ledger.records import Author, EventRecord
from tallybook.ledger.storage import disk
from tallybook.projections.history.event_rows import EventFilter, row
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.history import events as listing
from tallybook.projections.surfaces.history import moments, reading, sql
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, curation

READING = (damage, disk, scan, search, verification)

IDS = ["s1", "s2", "s\"'é"]
SAID = st.fixed_dictionaries(
    {"rater": st.sampled_from(["human", "reflector"])}, optional={"session": st.sampled_from(IDS)}
)
BATCHES = st.lists(st.tuples(SAID, st.lists(KNOWN, min_size=1, max_size=4)), max_size=6)
NAMES = st.sampled_from(["kpt_001", "kpt_010", "pat-001", "never"])
KINDS = st.lists(st.sampled_from(["point.*", "point.rated", "playbook.updated", "events.*", "nothing.*"]), max_size=2)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with two entries (2 to 3, 4 to 5), the first rated harmful in session s-one (6 to 8)."""
    made = Project(project)
    for text in ("one", "two"):
        commands.add(made, text, HUMAN)
    rated = extraction(("kpt_001", "harmful"), ("kpt_002", "helpful"))
    commands.record(made, rated, {"rater": "reflector", "session": "s-one"})
    return made


def log_of(batches: list[tuple[dict[str, str], list[Any]]]) -> MemoryLog:
    """Return a log of these batches, each with its provenance; line 1 opens it."""
    made = MemoryLog()
    for by, events in batches:
        with made.transaction() as tx:
            tx.append([encode(event) for event in events], by)
    return made


def seqs(answer: CommandResult) -> list[int]:
    """Return the numbers of the events that a command listed as JSON."""
    return [json.loads(line)["seq"] for line in answer.out.splitlines()]


# Rows


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_kind_becomes_a_row_of_plain_json(kind: str) -> None:
    """Each field of each kind is in body or free, and survives JSON unchanged."""
    event = sample(kind)
    told = row(EventRecord(812, "2026-11-21T20:17:03.123456Z", event, "019a", Author("reflector", session="s1")))
    assert told == json.loads(json.dumps(told))
    assert (kind, EVENT_TYPES[kind][1]) == (told["kind"], told["v"])
    assert {field.name for field in attrs.fields(type(event))} == {*told["body"], *(told.get("free") or {})}


# What is chosen


@settings(max_examples=200)
@given(
    BATCHES,
    st.builds(
        EventFilter,
        name=st.none() | NAMES,
        session=st.none() | st.sampled_from(IDS),
        rater=st.none() | st.sampled_from(["human", "nobody"]),
        kinds=KINDS.map(tuple),
        since=st.integers(0, 20),
        until=st.none() | st.integers(0, 20),
    ),
)
def test_filters_on_bytes_and_on_events_agree(
    batches: list[tuple[dict[str, str], list[Any]]], wanted: EventFilter
) -> None:
    """Choosing batches by their bytes leaves out no event that a check of every single event would list."""
    made = log_of(batches)
    every = [record for batch in decode(made.read()) for record in batch.records]
    expected = [record for record in every if wanted.takes(record)]
    if wanted.name is None or any(EventFilter(wanted.name).takes(record) for record in every):
        assert expected == list(listing.events(made, wanted))
    else:
        with pytest.raises(UnknownEntryError):
            list(listing.events(made, wanted))


# The last events, read from the end


def read_bytes_of(here: Project, run: Run, *words: str) -> tuple[list[int], int]:
    """Return the numbers of the events that a command lists, and how many bytes of files it reads by offset."""
    sizes: list[int] = []
    real = disk.read_at

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = real(fd, size, offset)
        sizes.append(len(data))
        return data

    with pytest.MonkeyPatch.context() as patch:
        for module in READING:
            patch.setattr(module, "read_at", counted)
        listed = seqs(run(*words, "--json"))
    assert here.ledger.exists()
    return listed, sum(sizes)


def make_ratings(here: Project, number: int) -> None:
    """Append so many ratings."""
    with reading.open_log(here).transaction() as tx:
        for _ in range(number):
            tx.append([encode(PointRated("kpt_001", "neutral"))], {"rater": "human"})


def test_the_last_events_are_read_from_the_end(here: Project, run: Run) -> None:
    """`log -n` reads no more of a ledger that is four times as long."""
    make_ratings(here, 400)
    few = read_bytes_of(here, run, "log", "-n", "5")
    make_ratings(here, 1_600)
    many = read_bytes_of(here, run, "log", "-n", "5")
    assert [*range(404, 409)] == few[0]
    assert [*range(2004, 2009)] == many[0]
    assert few[1] * 1.2 > many[1]


@pytest.mark.parametrize("tail", [b"", b"torn", b"no break"])
def test_the_last_events_are_those_of_the_whole_list(here: Project, run: Run, tail: bytes) -> None:
    """Whatever precedes the end, a sealed range with whole lines or an undo, `log -n N` lists the last N of `log`."""
    log = here.ledger / "events.jsonl"
    make_ratings(here, 3)
    log.write_bytes(log.read_bytes() + b"\0\n" + log.read_bytes().splitlines(keepends=True)[-1].replace(b"1", b"9"))
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert 0 == run("undo").code
    make_ratings(here, 2)
    log.write_bytes(log.read_bytes()[:-1] if tail == b"no break" else log.read_bytes() + tail)
    every = run("log", "--json").out.splitlines()
    for number in range(1, len(every) + 3):
        assert every[-number:] == run("log", "-n", str(number), "--json").out.splitlines()
    people = run("log").out.splitlines()
    assert people[-4:] == run("log", "-n", "4").out.splitlines()


# `verify`: a head noted elsewhere, and the log read once


@pytest.fixture
def changed(project: Path) -> Project:
    """Return a project with three entries and a rating each."""
    changed = Project(project)
    for text in ("one", "two", "three"):
        commands.add(changed, text, HUMAN)
    for name in ("kpt_001", "kpt_002", "kpt_003"):
        commands.rate(changed, name, "helpful", HUMAN)
    return changed


def test_a_head_noted_elsewhere_is_found_again(changed: Project) -> None:
    """A printed head stays valid as the ledger grows; any other head is a problem."""
    head = commands.verify_and_fold(changed)[0].head
    commands.rate(changed, "kpt_001", "harmful", HUMAN)
    assert commands.verify_and_fold(changed, expect=f"{head.seq}:{head.chain}")[0].ok
    (problem,) = commands.verify_and_fold(changed, expect=f"{head.seq}:{'0' * 32}")[0].problems
    assert head.seq == problem.seq
    assert not commands.verify_and_fold(changed, expect=f"{head.seq + 50}:{head.chain}")[0].ok
    with pytest.raises(BadInputError):
        commands.verify_and_fold(changed, expect="yesterday")[0]


def test_verify_reads_the_log_once(changed: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` of a long ledger reads each of its bytes from the disk once, and a few at its ends again."""
    commands.record(changed, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(100)]}, HUMAN)
    log, read_at, sizes = changed.ledger / "events.jsonl", disk.read_at, []

    def counting(fd: int, size: int, offset: int) -> bytes:
        data = read_at(fd, size, offset)
        if os.path.samestat(os.fstat(fd), log.stat()):
            sizes.append(len(data))
        return data

    for module in READING:
        monkeypatch.setattr(module, "read_at", counting)
    assert 0 == run("--project", str(changed.root), "verify").code
    assert 1.0 <= sum(sizes) / log.stat().st_size < 1.2


# One query over the verified ledger and its views, without access to anything else; and other tools on the file.


COUNTING = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t)"
PERSON = {"rater": "human", "session": "s1"}
TEXT = 'a "quoted"\ttext, 🎉, \x00 and \u2028 ' + "x" * 30_000
"""Longer than a line of the ledger may be, so that it is continued on others."""


@pytest.fixture
def queried(project: Path) -> Project:
    """Return a project with a pruned entry, one whose rating was undone, and one with a long text."""
    place = Project(project)
    commands.record(place, extraction(new=["Use type hints", "Mock the clock", TEXT]), PERSON)
    commands.record(place, extraction(*[("kpt_001", "harmful")] * 3), {"rater": "reflector", "session": "s2"})
    commands.rate(place, "kpt_002", "helpful", {"rater": "agent"})
    curation.undo(place, None, None, "misread", PERSON)
    return place


def ask(project: Project, query: str, when: str | None = None) -> list[tuple[Any, ...]]:
    """Return the rows that a query answers."""
    _, *rows = sql.query(project, query, moments.find(project, when) if when else None)
    return rows


def test_every_event_is_a_row(queried: Project) -> None:
    """Rows are in the order of `log`, with author, content, whole texts and JSON; undone events are marked."""
    logged = list(list_events(queried))
    rows = ask(queried, "SELECT seq, id, kind, v, rater, session, body, free FROM events ORDER BY seq")
    assert [
        (
            *map(row.get, ("seq", "id", "kind", "v")),
            *map(row["by"].get, ("rater", "session")),
            row["body"],
            row.get("free"),
        )
        for row in logged
    ] == rows
    assert [(row["at"],) for row in logged] == ask(queried, "SELECT at FROM events ORDER BY seq")
    assert [("point.rated",), ("playbook.updated",)] == ask(queried, "SELECT kind FROM events WHERE void ORDER BY seq")


def test_columns_of_a_shared_book_are_null_without_one(queried: Project) -> None:
    """One query fits every project: without a shared book, the machine and the number in it are NULL."""
    assert [(None, None)] == ask(queried, "SELECT DISTINCT writer, book FROM events")
    assert [(None, None)] == ask(queried, "SELECT DISTINCT writer, changed_book FROM points")
    assert [] == ask(queried, "SELECT writer, book FROM graveyard WHERE writer IS NOT NULL OR book IS NOT NULL")


@pytest.mark.parametrize("table", [*sql.COLUMNS, *sql.VIEWS])
def test_every_table_is_described(queried: Project, table: str) -> None:
    """SQLite's own list names every table, and table_info its columns; the reference names each table."""
    assert (table,) in ask(queried, "SELECT name FROM sqlite_master")
    described = [row[1] for row in ask(queried, f"PRAGMA table_info({table})")]
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
        "SELECT '\udcff'",
    ],
)
def test_a_statement_other_than_a_query_is_refused(
    queried: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str
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
    assert queried.playbook.exists()


def test_an_endless_query_is_ended(queried: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that does not end by itself is refused after the limit."""
    monkeypatch.setattr(sql, "LIMIT_S", 0.05)
    with pytest.raises(BadInputError, match=r"the query: takes longer than 0\.05 seconds; ask for less"):
        ask(queried, f"{COUNTING} SELECT max(i) FROM t")


def test_an_interrupted_query_ends_like_any_command(queried: Project) -> None:
    """Ctrl-C during a query exits with 130 and one line."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tallybook", "--project", queried.root, "sql", f"{COUNTING} SELECT max(i) FROM t"],
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


def read_documented_commands(begins: str) -> list[str]:
    """Return the documented commands that begin with a word, as arguments of a shell."""
    blocks = "\n".join(block.code for block in examples("sh")).replace("\\\n", "")
    return [line for line in blocks.splitlines() if line.startswith(f"{begins} ")]


def lines_of(command: str, cwd: Path) -> Sequence[str]:
    """Return the lines that a documented command prints, which must succeed."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=cwd)
    assert ("", 0) == (done.stderr, done.returncode)
    return done.stdout.removesuffix("\n").split("\n")


@pytest.fixture
def worn(queried: Project) -> Project:
    """Return the project with a redacted text, and with sealed bytes in its ledger that are not JSON."""
    assert 0 == main.run(["redact", "2", "--reason", "a name"])
    with (queried.ledger / "events.jsonl").open("ab") as file:
        file.write(b'{"crc":"0000' + b"\x00" * 5000 + b"\n" + b"\xff" * 10)
    commands.add(queried, "learned later", PERSON)
    assert "log.recovered" in [row["kind"] for row in list_events(queried)]
    return queried


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_jq_reads_the_file_as_documented(worn: Project) -> None:
    """Raw TABs, a redacted text, texts over several lines and sealed bytes do not break it."""
    counts, texts = read_documented_commands("jq")
    rated = [json.loads(line) for line in lines_of(counts, worn.root)]
    assert [["kpt_001", "harmful"]] * 3 + [["kpt_002", "helpful"]] == rated
    said = [json.loads(line)["text"] for line in lines_of(texts, worn.root)]
    assert ["Mock the clock", TEXT, "learned later"] == said
