"""The back ends that can hold a ledger, one row each, and the one that projects use. Standard library only."""

from __future__ import annotations

from tallybook.ledger.backends.jsonl import JsonlLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.clock import Now
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.log import Log

open_log = JsonlLog
"""Opens a project's ledger by its folder: every command and every hook does it by this name."""


def _open_memory(_folder: StrPath, now: Callable[[], Now]) -> Log:
    from tallybook.ledger.backends.memory import MemoryLog  # noqa: PLC0415 - hooks have no use for it

    return MemoryLog(now)


BACKENDS: dict[str, Callable[[StrPath, Callable[[], Now]], Log]] = {"jsonl": open_log, "memory": _open_memory}
"""Name of a back end → what opens it on a ledger's folder. The conformance suite (test_ledger_log.py) runs over it."""
