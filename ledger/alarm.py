"""Waiting for a lock until the system hands it over, and no longer than an alarm lets it. Standard library only.

Who asks again and again is late where many wait, and keeps the processor from whoever has the lock. So a process whose
alarm nobody else uses waits within the system's call, and the alarm ends that. Any other asks again and again.
"""

from __future__ import annotations

import _thread

from ledger.light import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    import signal
else:
    try:
        # signal itself would load enum for it.
        import _signal as signal
    except ImportError:
        import signal

# An alarm that rings between the last look at it and the system's call would ring unheard: it rings again.
_AGAIN_S = 0.01


class _RangError(Exception):
    """The alarm has rung."""


class _Alarm:
    """What the system calls when the time is over: it is heard once, so that whoever cleans up is left in peace."""

    def __init__(self) -> None:
        """Be heard when it rings."""
        self.is_heard = False

    def __call__(self, *_: object) -> None:
        if not self.is_heard:
            self.is_heard = True
            raise _RangError


def is_free() -> bool:
    """Say whether the alarm is nobody's, and would reach this thread."""
    return (
        hasattr(signal, "setitimer")
        and _thread._count() == 0  # noqa: SLF001 - threading asks it the same way, and is slow to load
        and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        and signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    )


def within(seconds: float, call: Callable[[], object]) -> bool:
    """Make a call of the system's that may wait, and end it once the time is over.

    Args:
        seconds: How long it may wait, more than 0.
        call: What waits in one call.

    Returns:
        Whether it came to its end. Where the alarm rang just behind that the answer is no, so look at what it did.
    """
    alarm = _Alarm()
    try:
        signal.signal(signal.SIGALRM, alarm)
    except ValueError:
        # Only the main thread may have an alarm.
        return False
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
            call()
        finally:
            alarm.is_heard = True
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _RangError:
        # It may have rung just before the last two lines. From here on it is not heard.
        signal.setitimer(signal.ITIMER_REAL, 0)
        return False
    finally:
        # Not before the timer stands still: to whoever has no handler an alarm is the end.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return True


def lock(fd: int, seconds: float) -> None:
    """Wait for the lock of a file as long as that, or not at all where it cannot be done so."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    if not is_free():
        return
    # Mostly its holder is about to give it back, and wants nothing but the processor for it.
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        within(seconds, lambda: fcntl.flock(fd, fcntl.LOCK_EX))
