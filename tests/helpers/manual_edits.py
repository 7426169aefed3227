"""A playbook.json that a person edits between the commands."""

from __future__ import annotations

import json
from typing import Any

from helpers.events import HUMAN
from helpers.reference_model import extraction
from tallybook.ledger.decisions.curation import Curation
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.requests import Request


def curate(here: Project, verb: str, name: str, text: str = "", merged: tuple[str, ...] = ()) -> None:
    """Record a curation of an entry by a person."""
    commands.record_request(here, Request(Curation(verb, name, "", text, merged), HUMAN))


def read(here: Project) -> Any:
    """Return playbook.json from the disk."""
    return json.loads(here.playbook.read_bytes())


def edit(here: Project, doc: Any, **changes: dict[str, Any]) -> None:
    """Change entries of a document, by name, and save it as a person would."""
    for kp in doc["key_points"]:
        kp.update(changes.get(kp["name"], {}))
    here.playbook.write_text(json.dumps(doc), encoding="utf-8")


def rate(here: Project, *ratings: tuple[str, str]) -> record.Outcome:
    """Record an update of these ratings."""
    return commands.record(here, extraction(*ratings), {"rater": "reflector", "session": "s2"})
