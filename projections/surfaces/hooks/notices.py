"""What agents' marks ask of a person, told once a day: at a session's start or after a command. Standard library only.

The file ``marks/notice`` of the ledger holds the day on which it was told last, a space, and the sentence.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger import clock
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.workspace.project import MARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.surfaces.workspace.project import AnyProject

NAME = "notice"
_NO_DAY = "-"


def put(project: AnyProject, text: str, names: Sequence[str] = ()) -> None:
    """Write down what is to be told, empty for nothing; at once where the last notice had not these names."""
    day, before = _read(project)
    _write(project, _NO_DAY if any(name not in before for name in names) else day, text)


def take(project: AnyProject) -> str:
    """Return what is to be told, which counts as told; empty for nothing, or if something was told today."""
    day, text = _read(project)
    today = clock.utc_now().at[:10]
    if not text or day == today:
        return ""
    # The sentence stays and is told on another day again, until a person decides.
    _write(project, today, text)
    return text


def is_open(project: AnyProject) -> bool:
    """Return whether there is anything to tell, today or later."""
    return _read(project)[1] != ""


def _path(project: AnyProject) -> str:
    return os.path.join(project.ledger, MARKS, NAME)


def _read(project: AnyProject) -> tuple[str, str]:
    with suppress(OSError, TallybookError):
        day, _, text = disk.read_file(_path(project)).decode("utf-8", "replace").partition(" ")
        return day, text
    return _NO_DAY, ""


def _write(project: AnyProject, day: str, text: str) -> None:
    ledger_access.write_marker(_path(project), f"{day} {text}".encode("utf-8", "replace"))
