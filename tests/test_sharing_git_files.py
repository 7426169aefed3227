"""The files of a book in git as pure functions: whatever bytes they hold, nothing is lost and no batch is hidden."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from helpers.books import make_run, make_runs
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engines.engine import NOTHING
from tallybook.ledger.sharing.engines.git_files import File, append_runs, cut, link, parse_tree, select

RUNS = make_runs(3)
LONG, _ = make_run(Position(0, NOTHING.chain, 0), "anna", "kpt_001", text="x" * 20_000)
JUNK = [
    b"\n",
    b"{}\n",
    b"\0" * 10 + b"\n",
    RUNS[0].data[:50] + b"\n",
    RUNS[0].data.replace(b"[1,1]", b"[1,2]"),
    b'{"crc":"\n',
]


@given(
    st.lists(
        st.sampled_from([*(run.data for run in RUNS), LONG.data, *JUNK])
        | st.binary(max_size=80).map(lambda data: data + b"\n")
    )
)
@example([LONG.data[:-200]])
@example([RUNS[0].data, RUNS[1].data[:-1]])
def test_every_byte_is_in_one_run_and_every_batch_is_found(pieces: list[bytes]) -> None:
    """Cut runs are the file again, and each whole batch after a line feed is a run of its own."""
    data = b"".join(pieces)
    found = cut(data, "000001.jsonl")
    assert data == b"".join(run.data for run in found)
    batches = [piece for piece in pieces if piece in {LONG.data, *(run.data for run in RUNS)}]
    assert batches == [run.data for run in found if run.data in batches]
    lines = [1 + data[: data.index(run.data)].count(b"\n") for run in found[:1]]
    assert [f"000001.jsonl, line {line}" for line in lines] == [run.place for run in found[:1]]


@given(st.lists(st.binary(max_size=60)))
def test_any_bytes_are_cut_and_linked(pieces: list[bytes]) -> None:
    """No bytes of a stranger raise an error, or state a number below zero."""
    found = cut(b"".join(pieces))
    assert link(found) == found
    assert [] == [run for run in found if run.first < 0 or run.after or run.last != run.first]
    assert found == select(found, 0, 0)


@given(st.lists(st.integers(0, 2), max_size=8), st.binary(max_size=30), st.integers(1, 999_999))
def test_appended_runs_follow_what_a_file_holds(chosen: list[int], content: bytes, number: int) -> None:
    """A file's content stays as it is at its beginning, and the runs follow it, in this file or the next."""
    runs = [RUNS[index] for index in chosen]
    files = append_runs(number, content, runs)
    data = b"".join(run.data for run in runs)
    is_closed = bool(content) and not content.endswith(b"\n")
    name = File(number + is_closed, "").name
    assert files == ({name: data if is_closed else content + data} if runs else {})


def test_a_tree_gives_its_files_by_number() -> None:
    """Files are in order of their numbers; links, folders and other spellings are not read, but their numbers count."""
    ids = [bytes([value]) * 20 for value in range(6)]
    names = [
        b"100644 000002.jsonl",
        b"100644 000001.jsonl",
        b"120000 000007.jsonl",
        b"40000 000008.jsonl",
        b"100644 0000003.jsonl",
        b"100644 x.jsonl",
    ]
    tree = b"".join(name + b"\0" + id_ for name, id_ in zip(names, ids, strict=True))
    assert ([File(1, ids[1].hex()), File(2, ids[0].hex())], 8) == parse_tree(tree, 20)
