"""The engine over NATS JetStream when servers die, streams are deleted or changed, and runs are written in parts."""

from __future__ import annotations

from contextlib import suppress
import signal
from typing import TYPE_CHECKING

import pytest

from helpers.books import make_run, make_runs, plain
from helpers.nats_cluster import Cluster, Connect, append, connections, held, new_book, shared_cluster
from tallybook.ledger.line import START, Position
from tallybook.ledger.sharing.engines import nats_messages
from tallybook.ledger.sharing.engines.engine import NOTHING, Outcome, UnreachableError
from tallybook.ledger.sharing.engines.nats import RUN_BYTES, NatsEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.sharing.engines.engine import Run


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Return three servers that run."""
    return shared_cluster(request)


@pytest.fixture
def book() -> str:
    """Return the name of a new book, which is the name of its stream too."""
    return new_book("fault-")


@pytest.fixture
def connect(cluster: Cluster, book: str) -> Iterator[Connect]:
    """Return a function that opens one more machine's engine on the book."""
    with connections(cluster, book) as open_engine:
        yield open_engine


def position(run: Run) -> Position:
    """Return the position after a run."""
    return Position(run.last, run.after, 0)


def generation_of(engine: NatsEngine) -> str:
    """Return the characters that tell a book's stream from others."""
    token = nats_messages.Token.parse(engine.read(0).end.token)
    assert token is not None
    return token.generation


def append_patiently(engine: NatsEngine, run: Run) -> None:
    """Append a run as a sync does: look, append, and look again where the outcome is not known."""
    for _ in range(60):
        contents = engine.read(0)
        if run in map(plain, contents.runs):
            return
        with suppress(UnreachableError):
            engine.append(contents.end, [run])
    pytest.fail("the run could not be appended")


def test_the_leader_is_killed_between_read_and_append(cluster: Cluster, connect: Connect, book: str) -> None:
    """The append is stored once, by the next leader, and everything acknowledged before is there."""
    runs = make_runs(3)
    engine = connect()
    append(engine, *runs[:2])
    end = engine.read(2).end
    leader = cluster.leader_of(book)
    cluster.kill(leader)
    assert engine.append(end, runs[2:]).outcome in {Outcome.DONE, Outcome.UNKNOWN}
    append_patiently(engine, runs[2])
    assert runs == held(connect())
    cluster.start(leader)
    assert runs == held(connect())


def test_all_servers_are_killed_at_once(cluster: Cluster, connect: Connect) -> None:
    """Everything acknowledged is there after they start anew, for a connection of before as for a new one."""
    runs = make_runs(40)
    engine = connect()
    append(engine, *runs[:20])
    for run in runs[20:]:
        append(engine, run)
    cluster.kill()
    with pytest.raises(UnreachableError, match="nothing listens there"):
        connect().read(0)
    cluster.start()
    assert [runs, runs] == [held(engine), held(connect())]


def test_a_server_that_answers_nothing_is_left_for_another(cluster: Cluster, connect: Connect) -> None:
    """A stopped server takes connections and says nothing; the engine goes on with the next one."""
    runs = make_runs(2)
    engine = connect()
    append(engine, runs[0])
    engine.servers.patience_s = 1.0
    process = cluster.processes[0]
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        append_patiently(engine, runs[1])
        assert runs == held(connect())
    finally:
        process.send_signal(signal.SIGCONT)


def test_a_stream_that_was_deleted_is_an_empty_book(cluster: Cluster, connect: Connect, book: str) -> None:
    """Readers find nothing, an append of before has moved, and the next one makes the stream anew."""
    runs = make_runs(3)
    engine = connect()
    old = append(engine, *runs[:2])
    cluster.call(f"STREAM.DELETE.{book}")
    assert Outcome.MOVED is engine.append(old, runs[2:]).outcome
    assert ((), NOTHING) == (engine.read(0).runs, engine.read(0).end)
    append(engine, *runs)
    assert [runs, runs[1:]] == [held(connect()), held(engine, 1)]


def test_a_stream_made_anew_takes_no_append_meant_for_the_old_one(
    cluster: Cluster, connect: Connect, book: str
) -> None:
    """Although the new stream ends at the same sequence, the append for the old one is stored nowhere."""
    runs, other = make_runs(3), make_runs(2, "other")
    anna, ben = connect(), connect()
    old = append(anna, *runs[:2])
    cluster.call(f"STREAM.DELETE.{book}")
    append(ben, *other)
    assert Outcome.MOVED is anna.append(old, runs[2:]).outcome
    assert other == held(anna)


def test_a_deleted_message_is_missing_and_nothing_else(cluster: Cluster, connect: Connect, book: str) -> None:
    """Reading goes on across the gap, from every number, and so does appending."""
    runs = make_runs(30)
    engine = connect()
    append(engine, *runs[:29])
    for seq in (1, 10, 29):
        cluster.call(f"STREAM.MSG.DELETE.{book}", seq=seq)
    left = [run for run in runs[:28] if run.last not in {1, 10}]
    assert (left, 2) == (held(connect()), connect().read(0).first)
    assert [left[left.index(runs[20]) :], left[-1:]] == [held(connect(), 20), held(connect(), 27)]
    append(engine, runs[29])
    assert [*left, runs[29]] == held(connect())


def test_a_stream_of_which_every_message_was_deleted_is_an_empty_book(
    cluster: Cluster, connect: Connect, book: str
) -> None:
    """The lines can be appended again."""
    runs = make_runs(2)
    engine = connect()
    append(engine, *runs)
    for seq in (1, 2):
        cluster.call(f"STREAM.MSG.DELETE.{book}", seq=seq)
    assert ((), NOTHING) == (tuple(engine.read(0).runs), engine.read(0).end)
    append(engine, *runs)
    assert runs == held(connect())


def test_parts_that_another_run_follows_do_not_count(cluster: Cluster, connect: Connect, book: str) -> None:
    """A writer dies within a large run, another one appends, the first begins again: two whole runs and a part."""
    small = make_runs(1)[0]
    engine = connect()
    append(engine, small)
    large = make_run(position(small), "ben", "kpt_001", text="long text " * 60_000)[0]
    generation = generation_of(engine)
    subject = f"tallybook.{book}.{generation}"
    messages = list(nats_messages.make_messages(large, 1, RUN_BYTES))
    assert 3 == len(messages)
    for headers, data in messages[:2]:
        cluster.publish(subject, data, headers)
    quick = make_run(position(small), "anna", "kpt_002")[0]
    append(engine, quick)
    late = make_run(position(quick), "ben", "kpt_001", text="long text " * 60_000)[0]
    append(connect(), late)
    runs = connect().read(0).runs
    part = large._replace(data=large.data[: 2 * RUN_BYTES])
    assert [small, part, quick, late] == [plain(run) for run in runs]
    assert [
        f"{book}, message 1",
        f"{book}, messages 2 to 3: 2 of 3 parts",
        f"{book}, message 4",
        f"{book}, messages 5 to 7",
    ] == [run.place for run in runs]


def test_a_part_in_the_middle_that_was_deleted_leaves_two_runs_that_do_not_count(
    cluster: Cluster, connect: Connect, book: str
) -> None:
    """Parts count only where each directly follows the one before."""
    large = make_run(START, "ben", "kpt_001", text="long text " * 60_000)[0]
    engine = connect()
    append(engine, large)
    cluster.call(f"STREAM.MSG.DELETE.{book}", seq=2)
    first, last = large.data[:RUN_BYTES], large.data[2 * RUN_BYTES :]
    assert [first, last] == [run.data for run in connect().read(0).runs]
    append(engine, make_run(position(large), "anna", "kpt_002")[0])
    assert 3 == len(connect().read(0).runs)


def test_a_message_of_another_program_is_reported_and_skipped(cluster: Cluster, connect: Connect, book: str) -> None:
    """It is a run without bytes, with its place; the book goes on after it."""
    runs = make_runs(3)
    engine = connect()
    append(engine, *runs[:2])
    cluster.publish(f"tallybook.{book}.{generation_of(engine)}", b"hello", {"Some": "header"})
    contents = connect().read(0)
    assert [f"{book}, message 3: no message of a book"] == [run.place for run in contents.runs[2:]]
    assert (2, runs[1].after) == contents.end[:2]
    append(connect(), runs[2])
    assert [*runs[:2], runs[2]] == [run for run in held(connect()) if run.data]
    assert runs[2:] == [run for run in held(connect(), 2) if run.data]


def test_a_replaced_stream_is_followed_and_can_be_deleted(cluster: Cluster, connect: Connect, book: str) -> None:
    """Each replacement is a new stream; readers find the last one, also when an operator has deleted those before."""
    anna, ben = connect(), connect()
    append(anna, *make_runs(3))
    append(ben, make_run(position(make_runs(3)[-1]), "ben", "kpt_002")[0])
    for writer in ("repaired", "reset"):
        fresh = make_runs(2, writer)
        assert Outcome.DONE is anna.replace(anna.read(0).end, fresh).outcome
        assert [fresh, fresh] == [held(ben), held(connect())]
    streams = cluster.call("STREAM.NAMES", subject=f"tallybook.{book}.*")["streams"]
    assert 3 == len(streams)
    for name in streams:
        if name != f"{book}@{generation_of(ben)}":
            cluster.call(f"STREAM.DELETE.{name}")
    assert [fresh, fresh, fresh] == [held(anna), held(ben), held(connect())]
    more = make_runs(3, "reset")[-1]
    append(connect(), more)
    assert [*fresh, more] == held(anna)


def test_two_streams_that_could_hold_the_book_are_named(cluster: Cluster, connect: Connect, book: str) -> None:
    """Where the first stream was deleted and two others are left, nobody guesses."""
    engine = connect()
    append(engine, *make_runs(1))
    engine.replace(engine.read(0).end, make_runs(1, "one"))
    engine.replace(engine.read(0).end, make_runs(1, "two"))
    cluster.call(f"STREAM.DELETE.{book}")
    with pytest.raises(UnreachableError, match=f"several streams could hold the book: {book}@.*, {book}@"):
        connect().read(0)


def test_a_successor_that_was_deleted_is_named(cluster: Cluster, connect: Connect, book: str) -> None:
    """Nothing is appended to the stream that it replaced; once that is deleted as well, the book can be filled anew."""
    engine = connect()
    append(engine, *make_runs(1))
    engine.replace(engine.read(0).end, make_runs(2, "one"))
    successor = f"{book}@{generation_of(engine)}"
    cluster.call(f"STREAM.DELETE.{successor}")
    for reader in (engine, connect()):
        with pytest.raises(UnreachableError, match=f"the stream {successor}, which took the place of {book}, is miss"):
            reader.read(0)
    cluster.call(f"STREAM.DELETE.{book}")
    append(engine, *make_runs(2, "one"))
    assert make_runs(2, "one") == held(connect())


def test_reading_finds_its_place_in_a_long_stream(connect: Connect) -> None:
    """From every number the same runs come as from the start, with and without a hint of where to look."""
    runs = make_runs(300)
    engine = connect()
    end = engine.append(NOTHING, runs).end
    for after in (0, 1, 2, 50, 150, 283, 284, 295, 298, 299, 300, 301):
        assert [runs[after:], end] == [held(connect(), after), connect().read(after).end]
        assert runs[after:] == held(engine, after)


def test_a_run_that_states_other_numbers_hides_none(connect: Connect) -> None:
    """The largest number so far is part of each message, so a run with small numbers misleads no search."""
    runs = make_runs(200)
    engine = connect()
    append(engine, *runs[:150])
    odd = make_runs(5, "odd")
    append(engine, *odd)
    end = engine.read(0).end
    assert Outcome.DONE is engine.append(end, runs[150:]).outcome
    for after in (3, 120, 149, 150, 151, 199):
        assert [run for run in [*runs[:150], *odd, *runs[150:]] if run.last > after] == held(connect(), after)
