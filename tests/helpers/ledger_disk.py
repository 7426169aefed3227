"""Helpers of tests: failing disk calls, and file modes."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path
import stat


def refuse(code: int) -> Callable[..., int]:
    """Return a stand-in for a system call that fails."""

    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


def mode_of(path: Path) -> int:
    """Return a file's mode."""
    return stat.S_IMODE(path.stat().st_mode)
