"""A person's consent to what publishes or destroys; one function decides it for every verb."""

from __future__ import annotations

import click

from tallybook.ledger.errors import EXIT_NO, BadInputError, TallybookError
from tallybook.projections.surfaces.agents.inside import require_person
from tallybook.projections.surfaces.console.output import can_ask

UNCHANGED = "nothing was changed"


class NotConfirmedError(TallybookError):
    """A person saw what a verb would do and declined."""

    exit_code = EXIT_NO

    def __init__(self, verb: str) -> None:
        """State that nothing changed."""
        super().__init__(f"{verb}: not confirmed; {UNCHANGED}")


def require_consent(verb: str, what: str, question: str, *, yes: bool, as_json: bool) -> None:
    """Return if a person consents: by ``--yes``, or by the answer yes on a terminal, where the default is no.

    Args:
        verb: The verb.
        what: What it does, which the error says where nobody can be asked.
        question: The question.
        yes: Whether ``--yes`` was given.
        as_json: Whether the answer is JSON, which leaves no room for a question.

    Raises:
        PersonsOnlyError: An agent typed the verb; what it types is no consent.
        BadInputError: There is no terminal to ask on.
        NotConfirmedError: The answer is no.
    """
    # Before --yes counts: what an agent types is no consent.
    require_person(verb)
    if yes:
        return
    if as_json or not can_ask():
        raise BadInputError(verb, what, f"give --yes; {UNCHANGED}")
    ask(verb, question)


def ask(verb: str, question: str) -> None:
    """Ask a question on the terminal; the default is no.

    Raises:
        NotConfirmedError: The answer is no.
    """
    if not click.confirm(question, default=False):
        raise NotConfirmedError(verb)
