"""The second core: with another process that proves, a log reads as it does without, whatever becomes of either."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from ledger import scan, second
from ledger.found import Run, found_of
from ledger.line import START
from ledger.redact import masked
from ledger.scan import Scan
from test_ledger_line import batches_of, file_of, raw, read
from test_ledger_scan import BATCHES, ENDS, GROUPS, LOG, sealed_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ledger.second import Second

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no second process without fork")

SEALED = sealed_log(b"torn").data
LOGS = {
    "whole": LOG,
    "empty": b"",
    "long": raw(batches_of(*GROUPS * 40)),
    "sealed": SEALED,
    "torn": LOG[:-1],
    "a hole": LOG + bytes(3000),
    "a text is gone": masked(LOG[: ENDS[2]], {"id-2"}) + LOG[ENDS[2] :],
    **{f"bit of {at}": LOG[:at] + bytes([LOG[at] ^ 1]) + LOG[at + 1 :] for at in range(5, len(LOG), 101)},
}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Second | None]:
    """Let the shortest log be proven by another process, and note what was begun."""
    begun: list[Second | None] = []
    beside = second.beside

    def noted(runs: Iterable[Run]) -> Second | None:
        begun.append(beside(runs))
        return begun[-1]

    monkeypatch.setattr(scan, "_SHARED_BYTES", 0)
    monkeypatch.setattr(scan, "_ALONE_BYTES", 0)
    monkeypatch.setattr(second, "cores", lambda: 2)
    monkeypatch.setattr(second, "load", lambda: 1.9)
    monkeypatch.setattr(second, "_is_alone", lambda: True)
    monkeypatch.setattr(second, "beside", noted)
    return begun


def are_gone(begun: Iterable[Second | None]) -> bool:
    """Say whether every process that was begun has ended and was waited for."""
    for one in begun:
        if one is not None:
            with pytest.raises(ProcessLookupError):
                os.kill(one._pid, 0)
    return True


@pytest.mark.parametrize("size", [1, 50, 1000, 128 * 1024])
@pytest.mark.parametrize("log", LOGS)
def test_a_log_reads_alike_on_one_core_and_on_two(
    monkeypatch: pytest.MonkeyPatch, started: list[Second | None], log: str, size: int
) -> None:
    """Batches, stop and sealed ranges are the same, and so is what is said of texts that are gone."""
    monkeypatch.setattr(scan, "CHUNK_BYTES", size)
    data = LOGS[log]
    ours, gone = read(data), [run.gone for run in Scan(file_of(data), START, len(data)).runs()]
    assert bool(data) == any(started)
    assert are_gone(started)
    monkeypatch.setattr(scan, "_SHARED_BYTES", 1 << 60)
    assert read(data) == ours
    assert [run.gone for run in Scan(file_of(data), START, len(data)).runs()] == gone


def test_texts_that_are_owed_are_gone_on_two_cores_too(started: list[Second | None]) -> None:
    """A text in the middle of its blotting out reads as gone where it is owed, and is damage where it is not."""
    half = LOG.replace(b'{"salt', b"null  ", 1)
    looked = Scan(file_of(half), START, len(half), owed={"id-2"})
    assert [BATCHES[0], BATCHES[1]._replace(data=masked(BATCHES[1].data, {"id-2"})), *BATCHES[2:]] == list(looked)
    assert BATCHES[:1] == read(half).batches
    assert are_gone(started)


def _silent(_: Iterable[Run]) -> Iterable[Run]:
    return iter(())


def _failing(runs: Iterable[Run]) -> Iterable[Run]:
    yield from list(runs)[:1]
    raise MemoryError


def _lying(runs: Iterable[Run]) -> Iterable[Run]:
    for run in runs:
        yield Run([*run.found[:-1], run.found[-1]._replace(chain="0" * 32)])


@pytest.mark.parametrize("does", [_silent, _failing, _lying])
@pytest.mark.parametrize("data", [LOG, LOG.replace(b"J*", b"K*"), SEALED])
def test_what_the_other_process_does_not_prove_is_proven_here(
    monkeypatch: pytest.MonkeyPatch,
    started: list[Second | None],
    does: Callable[[Iterable[Run]], Iterable[Run]],
    data: bytes,
) -> None:
    """It may end at once, later, or say something else: the answer is the one of a single core."""
    monkeypatch.setattr(scan, "CHUNK_BYTES", 600)
    noted = second.beside
    monkeypatch.setattr(second, "beside", lambda runs: noted(does(runs)))
    found = read(data)
    assert any(started)
    assert are_gone(started)
    monkeypatch.setattr(scan, "_SHARED_BYTES", 1 << 60)
    assert read(data) == found


def test_whoever_reads_no_further_leaves_no_process(started: list[Second | None]) -> None:
    """It ends with the reading, in the middle of the log too."""
    runs = Scan(file_of(LOG), START, len(LOG)).runs()
    assert BATCHES[0] == next(runs).found[0].batch
    assert [one is not None for one in started] == [True]
    runs.close()  # type: ignore[attr-defined]
    assert are_gone(started)


def test_what_is_said_of_a_run_has_one_length() -> None:
    """Its end and its chain value; a chain value that is none says no more than that."""
    found = found_of(BATCHES[0])
    said = second._said(found)
    assert [len(said)] * 3 == [len(second._said(found._replace(chain=chain))) for chain in ("", "é" * 40, "0" * 32)]
    assert said != second._said(found._replace(chain="0" * 32))
    assert said != second._said(found._replace(offset=1))


def test_runs_are_confirmed_one_by_one(started: list[Second | None]) -> None:
    """Each as soon as it was proven, in their order, and nothing behind the last."""
    runs = [Run([found_of(batch)]) for batch in BATCHES]
    second.beside(runs)
    (other,) = started
    assert other is not None
    assert [True] * len(runs) == [other.confirms(run.found[-1]) for run in runs]
    assert not other.confirms(runs[-1].found[-1])
    other.close()
    assert are_gone(started)


def test_a_process_that_somebody_else_waited_for_is_ended_too(started: list[Second | None]) -> None:
    """It came to its end without an error; nothing is left to end, and that is none either."""
    second.beside([])
    (other,) = started
    assert other is not None
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(other._pid, 0)[1])
    other.close()
    assert are_gone(started)


def next_descriptor() -> int:
    """Return the lowest descriptor that is free, so that one that was left open shows."""
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    return reader


def test_without_a_second_core_or_process_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """One core, none to spare, several threads, no fork, or a system that refuses: the log is proven here."""
    monkeypatch.setattr(second, "load", lambda: 0.0)
    monkeypatch.setattr(second, "cores", lambda: 1)
    assert None is second.beside([])
    monkeypatch.setattr(second, "cores", lambda: 2)
    monkeypatch.setattr(second, "load", lambda: 2.0)
    assert None is second.beside([])
    monkeypatch.setattr(second, "load", lambda: 0.0)
    monkeypatch.setattr(second, "_is_alone", lambda: False)
    assert None is second.beside([])
    monkeypatch.setattr(second, "_is_alone", lambda: True)

    def refuse() -> None:
        raise BlockingIOError

    free = next_descriptor()
    for call in ("fork", "pipe"):
        with monkeypatch.context() as patched:
            patched.setattr(os, call, refuse)
            assert None is second.beside([])
    assert free == next_descriptor()
    monkeypatch.delattr(os, "fork")
    assert None is second.beside([])


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """One where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        assert second.cores() == len(os.sched_getaffinity(0))
        monkeypatch.delattr(os, "sched_getaffinity")
    assert 1 == second.cores()


def test_a_system_that_does_not_say_is_taken_for_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some have no such figure, and some cannot tell it."""

    def refuse() -> None:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 0.5, 0.25), raising=False)
    assert 1.5 == second.load()
    monkeypatch.setattr(os, "getloadavg", refuse)
    assert 0.0 == second.load()
    monkeypatch.delattr(os, "getloadavg")
    assert 0.0 == second.load()


def test_a_process_with_threads_is_not_alone() -> None:
    """Another thread could hold a lock at the moment of the fork."""
    release = threading.Event()
    other = threading.Thread(target=release.wait)
    before = threading.active_count()
    other.start()
    try:
        assert not second._is_alone()
    finally:
        release.set()
        other.join()
    assert (before == 1) == second._is_alone()


def test_whoever_reads_a_little_begins_no_process(
    monkeypatch: pytest.MonkeyPatch, started: list[Second | None]
) -> None:
    """One is begun for what lies further on, and the answer is the same."""
    monkeypatch.setattr(scan, "CHUNK_BYTES", 600)
    monkeypatch.setattr(scan, "_ALONE_BYTES", 600)
    data = LOGS["long"]
    batches = iter(Scan(file_of(data), START, len(data)))
    first = next(batches)
    assert [] == started
    assert read(data).batches == [first, *batches]
    assert any(started)
    assert are_gone(started)
