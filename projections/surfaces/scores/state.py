"""The scores of a project, folded out of its ledger. Every command that needs scores calls ``state_of``."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tallybook.ledger.errors import BadInputError
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.checkpoint import pack, unpack_as
from tallybook.projections.scores.inputs import ScoredPlaybook, Sessions
from tallybook.projections.scores.view import Baseline, Scores, Tally, scores_view
from tallybook.projections.surfaces.history.checkpoints import Form
from tallybook.projections.surfaces.history.reading import fold_view, open_own_log
from tallybook.projections.surfaces.scores import configuration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.scores.config import Config
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project

_SCORING = ("session_weights", "sessions", "benchmarks", "feedback", "components", "timezone")
"""The parts of the configuration that decide a score. The others only show the same scores in another way."""


def state_of(project: Project, config: Config | None = None, when: Moment | None = None) -> Scores:
    """Return the scores of a project, counted, now or as of a moment.

    Args:
        project: The project.
        config: The configuration of its scores; None for what the project says.
        when: The moment; None for the end of the ledger.

    Raises:
        TallybookError: The ledger is damaged or cannot be read, or the configuration is invalid.
    """
    if when is not None and when.in_book is not None:
        where, hint = f"--at book:{when.in_book}", "use an event number of this machine, a date or an age"
        raise BadInputError(where, "is a moment of the book, and scores are of this machine", hint)
    form = form_of(configuration.load(project) if config is None else config)
    # The ledger file of a commit need not be the beginning of this one, so that no checkpoint fits it.
    if when is not None and when.commit:
        return fold_history(form.view, when.history, when.seq).count()
    # Scores are those of the own ledger, with or without a shared book.
    return fold_view(form, open_own_log(project), None if when is None else when.seq).count()


def form_of(config: Config) -> Form[Scores]:
    """Return how the scores under a configuration are saved."""
    return Form(
        "scores",
        scores_view(config),
        _pack,
        partial(_unpack, config),
        attrgetter("playbook"),
        configuration.as_json(config, _SCORING),
    )


_TYPES: Final[dict[str, Any]] = {
    "seq": int,
    "chain": str,
    "days": dict[str, Tally],
    "versions": dict[str, Tally],
    "baselines": dict[str, Baseline],
    "last_at": str,
    "unscored": dict[str, int],
    "rewrites": int,
}
"""Fields of a state that are saved as they are → their types."""


def _pack(state: Scores) -> dict[str, Any]:
    state.count()
    playbook = state.playbook
    return {name: getattr(state, name) for name in _TYPES} | {
        # As one value, so that most questions never decode it: a session takes about 750 bytes.
        "sessions": state.sessions.encode(),
        "playbook": playbook and pack(playbook),
        "words": playbook and {words: list(names) for words, names in playbook.words.items()},
    }


def _unpack(config: Config, values: Mapping[str, Any]) -> Scores:
    playbook = None
    if values["playbook"] is not None:
        playbook = unpack_as(ScoredPlaybook, values["playbook"])
        playbook.words = {words: dict.fromkeys(names) for words, names in values["words"].items()}
    fields = {name: msgspec.convert(values[name], type_) for name, type_ in _TYPES.items()}
    return Scores(config=config, sessions=Sessions(values["sessions"]), playbook=playbook, **fields)
