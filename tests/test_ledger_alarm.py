"""Waiting for a lock within the system's call: the alarm that ends it, and whose alarm is left alone."""

from __future__ import annotations

import _thread
import errno
import os
import subprocess
import sys
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING

import pytest

from ledger import alarm, disk
from test_ledger_disk import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

signal = pytest.importorskip("signal")
fcntl = pytest.importorskip("fcntl")

LONG_S = 600.0
SHORT_S = 0.01
HOLDER = """
import fcntl, sys, time
held = open(sys.argv[1], "rb+")
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever runs the tests in threads of its own not count."""
    monkeypatch.setattr(_thread, "_count", lambda: 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a file is."""
    path = tmp_path / "lock"
    path.touch()
    return path


@pytest.fixture
def fd(path: Path) -> Iterator[int]:
    """Return that file, open."""
    opened = os.open(path, os.O_RDWR)
    yield opened
    os.close(opened)


def holder(path: Path, seconds: float) -> subprocess.Popen[bytes]:
    """Let another process hold the lock of a file for a while."""
    command = [sys.executable, "-c", HOLDER, str(path), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"held\n" == process.stdout.readline()
    return process


def is_as_before() -> bool:
    """Say whether nothing is left of an alarm."""
    return bool(
        signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    )


def test_a_lock_that_comes_free_is_handed_over(path: Path, fd: int) -> None:
    """Who waits has it once its holder is gone, and no alarm is left."""
    with holder(path, 0.05):
        alarm.lock(fd, LONG_S)
    assert is_as_before()
    other = os.open(path, os.O_RDWR)
    assert not disk.try_lock(other)
    os.close(other)


def test_a_lock_that_stays_held_is_not_waited_for_for_ever(path: Path, fd: int) -> None:
    """The alarm ends the wait, and whoever tries sees that the lock is another's."""
    with holder(path, LONG_S) as other:
        alarm.lock(fd, SHORT_S)
        assert not disk.try_lock(fd)
        other.kill()
    assert is_as_before()


def test_a_call_that_ends_in_time_is_told_so() -> None:
    """It is made once, with the alarm set, and nothing is left behind it."""
    left: list[tuple[float, float]] = []
    assert alarm.within(LONG_S, lambda: left.append(signal.getitimer(signal.ITIMER_REAL)))
    assert [True] == [0 < seconds <= LONG_S and again > 0 for seconds, again in left]
    assert is_as_before()


def test_a_call_that_takes_too_long_is_ended() -> None:
    """It does not come to its end, and that is told."""
    assert not alarm.within(SHORT_S, lambda: sleep(LONG_S))
    assert is_as_before()


def test_an_alarm_that_rang_unheard_rings_again() -> None:
    """As if it had rung right before the system was asked to wait."""
    rang: list[int] = []
    signals: list[Callable[..., object]] = []

    def wait() -> None:
        signals.append(signal.getsignal(signal.SIGALRM))
        signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
        while not rang:
            sleep(SHORT_S)
        signal.signal(signal.SIGALRM, signals[0])
        sleep(LONG_S)

    assert not alarm.within(SHORT_S, wait)
    assert is_as_before()


def test_whoever_cleans_up_is_left_in_peace() -> None:
    """The alarm is heard once, however often it rings until all is tidied."""
    tidied: list[int] = []

    def wait() -> None:
        try:
            sleep(LONG_S)
        finally:
            sleep(10 * SHORT_S)
            tidied.append(1)

    assert not alarm.within(SHORT_S, wait)
    assert [1] == tidied
    assert is_as_before()


def test_an_alarm_behind_the_end_of_a_call_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever came to the end in time is told so, if it rings right before it is switched off."""
    set_timer = signal.setitimer

    def late(which: int, seconds: float, again: float = 0.0) -> None:
        if not seconds:
            signal.raise_signal(signal.SIGALRM)
        set_timer(which, seconds, again)

    monkeypatch.setattr("ledger.alarm.signal.setitimer", late)
    assert alarm.within(LONG_S, lambda: None)
    assert is_as_before()


def test_an_error_of_the_call_is_its_callers() -> None:
    """It goes through, and no alarm is left."""
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        alarm.within(LONG_S, refuse(errno.EIO))
    assert is_as_before()


def test_another_thread_has_no_alarm() -> None:
    """There the call is not made at all."""
    told: list[bool] = []
    made: list[int] = []
    thread = Thread(target=lambda: told.append(alarm.within(LONG_S, lambda: made.append(1))))
    thread.start()
    thread.join()
    assert ([False], []) == (told, made)
    assert is_as_before()


def test_an_alarm_that_nobody_uses_is_free(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the holder is let go on for a moment, and where that was not enough the system is asked to wait."""
    asked: list[tuple[int, int]] = []

    def flock(file: int, how: int) -> None:
        asked.append((file, how))
        if how & fcntl.LOCK_NB:
            refuse(errno.EWOULDBLOCK)()

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(os, "sched_yield", lambda: asked.append((-1, 0)))
    assert alarm.is_free()
    alarm.lock(fd, LONG_S)
    assert [(-1, 0), (fd, fcntl.LOCK_EX | fcntl.LOCK_NB), (fd, fcntl.LOCK_EX)] == asked


def test_a_lock_that_was_about_to_be_given_back_is_not_waited_for(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is had at once, without an alarm."""
    asked: list[float] = []
    monkeypatch.setattr(alarm, "within", lambda seconds, _: asked.append(seconds))
    alarm.lock(fd, LONG_S)
    assert [] == asked


@pytest.fixture(params=["threads", "handler", "timer", "mask", "windows"])
def taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the alarm somebody else's, or one that would not reach this thread."""
    if request.param == "threads":
        monkeypatch.setattr(_thread, "_count", lambda: 1)
    elif request.param == "handler":
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    elif request.param == "timer":
        signal.setitimer(signal.ITIMER_REAL, LONG_S)
    elif request.param == "mask":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    else:
        monkeypatch.delattr("ledger.alarm.signal.setitimer")
    yield
    monkeypatch.undo()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})


@pytest.mark.usefixtures("taken")
def test_an_alarm_that_somebody_uses_is_left_alone(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not free, so that nobody waits by it."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(fcntl, "flock", lambda *words: asked.append(words))
    assert not alarm.is_free()
    alarm.lock(fd, LONG_S)
    assert [] == asked


def test_a_system_without_flock_is_not_asked_to_wait(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done, and who tries goes on trying."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    alarm.lock(fd, LONG_S)
    assert is_as_before()
