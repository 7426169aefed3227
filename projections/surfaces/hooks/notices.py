"""What agents' marks ask of a person, told once a day: at a session's start or after a command. Standard library only.

The file ``marks/notice`` of the ledger holds the day on which it was told last, a space, and the sentence.
"""

from __future__ import annotations

from tallybook.ledger import clock
from tallybook.projections.surfaces.hooks import ledger_access

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


def _read(project: AnyProject) -> tuple[str, str]:
    day, _, text = ledger_access.read_marker(ledger_access.marker_file(project, NAME)).partition(" ")
    return day or _NO_DAY, text


def _write(project: AnyProject, day: str, text: str) -> None:
    ledger_access.write_marker(ledger_access.marker_file(project, NAME), f"{day} {text}")
