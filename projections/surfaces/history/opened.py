"""What one command knows of a project: its ledger, settings, redacted texts and playbook, each read once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tallybook.ledger.names import BY_SECTION, PREFIX
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX, SECTIONED
from tallybook.ledger.storage import redacted_digests
from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.personal import PersonalPlaybook

if TYPE_CHECKING:
    from tallybook.ledger.log import JsonlLog
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.history.checkpoints import Form, S
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.workspace.settings import Settings


class Opened:
    """A project for the time of one command. What it has read it does not read again, whatever others change.

    Attributes:
        project: The paths of the project.
    """

    def __init__(self, project: Project) -> None:
        """Take the project; nothing is read or created before somebody asks for it."""
        self.project = project

    @cached_property
    def log(self) -> JsonlLog:
        """Return the ledger, with the shared book in it if the project has one."""
        return reading.open_log(self.project)

    @cached_property
    def settings(self) -> Settings:
        """Return the settings that apply; no cache of them is written."""
        return settings.read(self.project, store=False)

    @cached_property
    def redactions(self) -> Redactions:
        """Return the texts that were redacted here."""
        return redacted_digests.load(self.project.ledger)

    def read_redactions(self) -> None:
        """Read the redacted texts anew: under the ledger's lock those count that it then has."""
        self.redactions = redacted_digests.load(self.project.ledger)

    @cached_property
    def prefix(self) -> str:
        """Return the beginning of the names that new entries are given."""
        if isinstance(self.project, PersonalPlaybook):
            return PERSONAL_PREFIX
        return BY_SECTION if self.settings.format == SECTIONED else PREFIX

    def playbook(self, *, cold: bool = False) -> Playbook:
        """Return the playbook at the end of the ledger, as ``reading.current``: each time as it is then."""
        return reading.current(self.log, cold=cold)

    def state(self, form: Form[S], until: int | None = None) -> S:
        """Return the state of a view at the end of the ledger or as of a moment, as ``reading.fold_view``."""
        return reading.fold_view(form, self.log, until)

    def rendering_of(self, state: Playbook) -> bytes:
        """Return the bytes of ``playbook.json`` for a playbook, in the form that the settings name."""
        return playbook_bytes(state, self.settings.format)

    def close(self) -> None:
        """Close the ledger."""
        self.log.close()
