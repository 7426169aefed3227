"""Scores of a project: folded from its whole ledger, and in a form that compares."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
import tempfile
from typing import TYPE_CHECKING, Any

import attrs

from helpers.cache_places import caches_of
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.projections.fold import fold_history
from tallybook.projections.scores import view
from tallybook.projections.scores.config_file import read_config
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.projections.scores.config import Config
    from tallybook.projections.scores.view import Scores


DEFAULT = configuration.default()


CONFIG = read_config(DEFAULT)


def project_in(folder: Path) -> Project:
    """Return a new project."""
    return Project(Path(tempfile.mkdtemp(dir=folder)))


def cache_of(project: Project) -> Path:
    """Return the file of a project's cache."""
    return caches_of(project.ledger) / "scores.blob"


def record_events(project: Project, session: str | None, events: list[Any], when: str | None = None) -> None:
    """Record events of a session."""
    with closing(open_log(project)) as log, log.transaction() as tx:
        tx.append(
            [encode(event, when) for event in events], {"rater": "agent"} | ({"session": session} if session else {})
        )


def folded(project: Project, config: Config = CONFIG, until: int | None = None) -> Scores:
    """Return the plain fold of the whole ledger."""
    log = open_log(project)
    return fold_history(view.scores_view(config), lambda: decode(log.read()), until).count()


def comparable(state: Scores) -> dict[str, Any]:
    """Return all of a state's document, with its sessions, in a form that compares."""
    latest = list(state.sessions.latest())
    shown = {field.name: getattr(state, field.name) for field in attrs.fields(type(state))}
    # The last batch before a checkpoint is known by its number and time alone.
    del shown["playbook"]
    for name in ("days", "versions"):
        shown[name] = dict(shown[name])
    shown["latest_batch"] = state.latest_batch and (state.latest_batch.at, state.end)
    shown["sessions"] = [(one, state.session(one.id)) for one in latest]
    shown["none"] = state.session("of nobody")
    return shown


def shown(state: Scores) -> list[str]:
    """Return a state as text for another process, and the number of its event."""
    parts = [(name, repr(value)) for name, value in comparable(state).items() if name != "config"]
    return [str(state.seq), repr(sorted(parts))]
