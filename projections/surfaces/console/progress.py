"""How far a long read is, for a person at a terminal: shown after a second, and cleared before the answer.

Rich is loaded only once there is something to show.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress, TaskID

DELAY_S: Final = 1.0
"""Seconds for which a command shows nothing."""

_REFRESH_S: Final = 0.1


class Meter:
    """The progress of one command.

    Attributes:
        enabled: Whether a person sees it.
    """

    def __init__(self) -> None:
        """Show nothing until the command line enables it."""
        self.enabled = False
        self._shown: tuple[Progress, TaskID] | None = None
        self._next = 0.0

    def enable(self) -> None:
        """Show progress from now on, if the error output is a terminal."""
        self.enabled = sys.stderr.isatty()
        self._next = time.monotonic() + DELAY_S

    def disable(self) -> None:
        """Show no more of it."""
        self.clear()
        self.enabled = False

    def update(self, done: int, size: int) -> None:
        """Show how much of a read is done; ``done`` equal to ``size`` ends it.

        Args:
            done: How much.
            size: How much there is; 0 where nobody knows.
        """
        if done == size:
            self.clear()
        elif self.enabled and time.monotonic() >= self._next:
            self._next = time.monotonic() + _REFRESH_S
            self._show(done, size)

    def _show(self, done: int, size: int) -> None:
        if self._shown is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

            progress = Progress(
                *(BarColumn(), TaskProgressColumn(show_speed=True), TimeRemainingColumn()),
                console=Console(file=sys.stderr),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            progress.start()
            self._shown = progress, progress.add_task("", total=None)
        progress, task = self._shown
        progress.update(task, completed=done, total=size or None, refresh=True)

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None


METER: Final = Meter()


def watcher() -> Callable[[int, int], None] | None:
    """Return what hears how far a read is, None where nobody sees it."""
    return METER.update if METER.enabled else None
