"""The verb `what-if`: its options become a policy and what is left out, its answer a difference. It records nothing."""

from __future__ import annotations

from pathlib import Path
import sys
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.projections.comparison.whatif import Alternative, Exclusion, difference_json, fold_alternative
from tallybook.projections.playbook.aging import aged_view
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.playbook.view import playbook_view
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console import notices
from tallybook.projections.surfaces.console.options import as_json, at_when
from tallybook.projections.surfaces.console.output import answer, format_count, note, say
from tallybook.projections.surfaces.history import moments, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.projections.fold import View
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project

_SEQ_DIGITS: Final = 18
_SESSION: Final = "session:"
TEXT_CHARS: Final = 70
"""Characters of a text that an answer shows to people, the mark of the cut included."""
_COUNTS: Final = click.IntRange(1, 10**9)


@attrs.frozen
class Supposed:
    """What is to be otherwise.

    Attributes:
        policy: Who goes.
        half_life: The age at which a rating counts half, such as ``90d``; None where it always counts whole.
        without: What is left out, each as ``session:ID``, ``rater:NAME`` or a sequence number.
    """

    policy: Policy = SPEC_POLICY
    half_life: str | None = None
    without: tuple[str, ...] = ()

    @property
    def view(self) -> View[Any]:
        """Return the view that this is."""
        if self.half_life is None:
            return playbook_view(self.policy)
        age_us = moments.age_us(self.half_life)
        if not age_us:
            raise BadInputError(f"--half-life {self.half_life}", "is not an age", "use an age such as 90d, 12h or 8w")
        return aged_view(self.policy, age_us)

    @property
    def rule(self) -> str:
        """Return the rule in words."""
        aged = "" if self.half_life is None else f", a rating counting half after {self.half_life}"
        back = "" if self.policy.is_permanent else ", and back as soon as that no longer holds"
        return f"{self.policy.rule}{aged}{back}"


def policy_of(name: str | None, floor: int | None, margin: int | None) -> Policy:
    """Return a policy of the table with other numbers where they are given."""
    policy = POLICIES[name or SPEC_POLICY.name]
    return attrs.evolve(policy, floor=floor or policy.floor, margin=margin or policy.margin)


def without_of(given: Sequence[str]) -> Exclusion:
    """Return what is left out.

    Raises:
        BadInputError: One of them is neither a session, nor a rater, nor a sequence number.
    """
    named: dict[str, set[str]] = {"session": set(), "rater": set(), "seq": set()}
    for what in given:
        kind, colon, value = what.partition(":")
        if what.isascii() and what.isdigit() and len(what) <= _SEQ_DIGITS:
            kind, value = "seq", str(int(what))
        elif not (colon and kind in {"session", "rater"} and value):
            hint = "use session:ID, rater:NAME or an event number"
            raise BadInputError(f"--without {what!r}", "is not something to leave out", hint)
        named[kind].add(value)
    sessions, raters, seqs = named.values()
    return Exclusion(frozenset(sessions), frozenset(raters), frozenset(map(int, seqs)))


def whole_ids(project: Project, given: Sequence[str]) -> tuple[str, ...]:
    """Return what is left out with the whole id of each session of which the beginning was given.

    Raises:
        BadInputError: There is no such session, or there are several.
    """
    log = reading.open_log(project)
    sessions = {what for what in given if what.startswith(_SESSION) and what != _SESSION}
    found = {what: moments.session_of(log, what.removeprefix(_SESSION), f"--without {what}") for what in sessions}
    return tuple(f"{_SESSION}{found[what].session}" if what in found else what for what in given)


def look(project: Project, supposed: Supposed, when: str | Moment | None = None) -> Alternative:
    """Return the playbook at a moment, as it is and as it would be; nothing is written.

    Raises:
        BadInputError: A session that is to be left out is not there.
        NothingToDoError: Something else that is to be left out is not there.
    """
    history, until = commands.up_to(project, when)
    # A commit may have another history, with sessions of its own.
    is_ours = not isinstance(when, moments.Moment) or not when.commit
    given = whole_ids(project, supposed.without) if is_ours else supposed.without
    without = without_of(given)
    state = fold_alternative(history, supposed.view, without, until)
    for what in given:
        said = what if ":" in what else str(int(what))
        if said not in state.left_out:
            hint = "see `tallybook log`"
            raise NothingToDoError(f"--without {what}", "leaves out no event up to that moment", hint)
    return state


def told_json(state: Alternative, supposed: Supposed) -> dict[str, Any]:
    """Return the stable answer: what was supposed, and ``difference_json``."""
    asked = {"policy": supposed.policy.name, "rule": supposed.rule, "without": state.left_out}
    return asked | difference_json(state)


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answer for people, a line each; texts are cut."""
    left = ", ".join(f"{what} ({format_count(count, 'event')})" for what, count in told["without"].items())
    yield f"by the policy {told['policy']}: {told['rule']}" + (f"; without {left}" if left else "")
    for row in told["back"]:
        was = "was never there" if row["status"] == "unknown" else f"is {row['status']}"
        yield f"{row['name']} would stand with {_counts(row)}, and {was}: {_cut(row['text'])}"
    for row in told["gone"]:
        there = row["there"]
        would = "would never have come" if there is None else f"would be {row['status']} with {_counts(there)}"
        yield f"{row['name']} {would}, and stands with {_counts(row)}: {_cut(row['text'])}"
    for row in told["changed"]:
        real, other = row["real"], row["other"]
        if _counts(real) != _counts(other):
            yield f"{row['name']} would have {_counts(other)}, and has {_counts(real)}: {_cut(real['text'])}"
        if real["text"] != other["text"]:
            yield f"{row['name']} would have another text: {_cut(other['text'])}"
    differ = sum(len(told[part]) for part in ("back", "gone", "changed"))
    if not differ:
        yield f"nothing would be otherwise at event {told['at']}"
        return
    entries = format_count(differ, "entry", "entries")
    yield f"{entries} would be otherwise at event {told['at']}; {told['other']} would stand instead of {told['real']}"


def _cut(text: str) -> str:
    return shorten(text, TEXT_CHARS, placeholder="…")


def _counts(row: Mapping[str, Any]) -> str:
    return f"{row['helpful']} helpful and {row['harmful']} harmful"


@click.command("what-if", epilog="Example: tallybook what-if --floor 5 --without session:5f1c2f0e")
@click.option("--policy", type=click.Choice(list(POLICIES)), help="Prune by this policy; the playbook's own is sticky.")
@click.option("--floor", metavar="N", type=_COUNTS, help="Prune at N harmful ratings or more.")
@click.option("--margin", metavar="N", type=_COUNTS, help="Prune at N more harmful than helpful ratings or more.")
@click.option("--half-life", metavar="AGE", help="Count a rating of this age half, such as 90d.")
@click.option("--without", metavar="WHAT", multiple=True, help="Leave out session:ID, rater:NAME or SEQ; repeatable.")
@at_when
@click.option("--output", metavar="FILE", help="Write that playbook to FILE; - is standard output.")
@as_json
@click.pass_obj
def what_if(project: Project, /, **options: Any) -> None:
    """Replay history under another policy or without some events.

    The answer compares that playbook with the real one. Nothing is recorded, and playbook.json stays as it is.
    """
    policy = policy_of(options["policy"], options["floor"], options["margin"])
    supposed = Supposed(policy, options["half_life"], options["without"])
    moment = notices.find_moment(project, options["when"])
    state = look(project, supposed, moment)
    notices.note_pending(project, moment, state.real)
    if options["output"] == "-":
        sys.stdout.buffer.write(playbook_bytes(state.other))
        return
    if options["output"] is not None:
        commands.write_beside(project, Path(options["output"]), lambda: playbook_bytes(state.other))
        note(f"{options['output']} written")
    told = told_json(state, supposed)
    if options["as_json"]:
        answer(told)
        return
    notices.note_moment(moment, state)
    say(*(" ".join(line.split()) for line in lines(told)))
