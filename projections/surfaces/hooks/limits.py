"""How much a hook reads before it gives up: an agent waits for it. Standard library only."""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import BadInputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    import signal

    from tallybook.ledger.fast_stdlib import StrPath
else:
    try:
        # signal itself would load enum for it.
        import _signal as signal
    except ImportError:
        import signal

MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""What is sent beyond it is not read."""
MAX_PLAYBOOK_BYTES = 4 * 1024 * 1024
"""A longer ``playbook.json``, some 35,000 entries, is not read: that alone would take a hook's time."""
MAX_CPU_S = 5
"""Seconds of processor time after which a hook gives up; an agent ends it after 10 seconds."""


def limit_time(give_up: Callable[..., None]) -> None:
    """Call ``give_up`` once this process has used MAX_CPU_S of processor time; Windows has no such timer."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, give_up)
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)


def refuse_large(playbook: StrPath) -> None:
    """Refuse a ``playbook.json`` that takes longer to read than a hook has.

    Raises:
        BadInputError: It has more than MAX_PLAYBOOK_BYTES.
    """
    size = 0
    with suppress(OSError):
        size = os.stat(playbook).st_size
    if size > MAX_PLAYBOOK_BYTES:
        what = f"has {size:,} bytes, and hooks read at most {MAX_PLAYBOOK_BYTES:,}"
        raise BadInputError(str(playbook), what, "`tallybook retire NAME` what is no longer needed")
