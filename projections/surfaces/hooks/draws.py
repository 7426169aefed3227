"""What a session is not given, to find out whether it helps: drawn once for a lineage. Standard library only."""

from __future__ import annotations

from tallybook.ledger.fast_stdlib import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.surfaces.agents.agent import Payload
    from tallybook.projections.surfaces.workspace.project import ProjectPaths


class Draw(NamedTuple):
    """A draw; without an open question all of it is empty.

    Attributes:
        held: The selected entries that are withheld, in order.
        question: Id of the event that asked.
        lineage: The session with which the conversation began.
        units: What was drawn for.
        probability: With which each unit is held.
    """

    held: tuple[str, ...] = ()
    question: str = ""
    lineage: str = ""
    units: tuple[str, ...] = ()
    probability: float = 0.0


def draw(project: ProjectPaths, payload: Payload, selected: Sequence[str]) -> Draw:
    """Return what is withheld of the selected entries."""
    del project, payload, selected
    return Draw()
