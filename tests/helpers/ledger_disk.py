"""Helpers of tests: failing disk calls, and file modes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def refuse(code: int) -> Callable[..., int]:
    """Return a stand-in for a system call that fails."""

    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


def mode_of(path: Path) -> int:
    """Return a file's mode."""
    return stat.S_IMODE(path.stat().st_mode)
