"""The verbs of every day with their options spelled out, as agents, hooks and scripts write them: without Click.

What is read here Click reads the same; all else is Click's to read, or to refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.projections.surfaces.cli import everyday
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.workspace.project import find_project

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tallybook.projections.surfaces.workspace.project import Project

RECORD_RATER: Final = "reflector"


class Form(NamedTuple):
    """How a verb is written.

    Attributes:
        do: Does it, with its options.
        valued: Option with a value → the parameter's name.
        defaults: Parameter → its value where the option is left out.
        rest: Returns the parameters that the words without an option are, None where there are too few or too many.
    """

    do: Callable[[Project, Mapping[str, Any]], int]
    valued: Mapping[str, str]
    defaults: Mapping[str, Any]
    rest: Callable[[tuple[str, ...]], dict[str, Any] | None]


class Read(NamedTuple):
    """A command line that was understood.

    Attributes:
        folder: What ``--project`` names, None without it.
        verb: The verb.
        options: All parameters of the verb.
    """

    folder: str | None
    verb: str
    options: dict[str, Any]


_NO_ONE: Final = dict.fromkeys((*output.BY_OPTIONS, "key"))
_DELIVERY: Final = {f"--{name}": name for name in _NO_ONE}


def _none(words: tuple[str, ...]) -> dict[str, Any] | None:
    return None if words else {}


VERBS: Final[dict[str, Form]] = {
    "add": Form(
        everyday.add,
        _DELIVERY,
        _NO_ONE | {"rater": "human", "again": False},
        lambda words: {"text": words[0]} if len(words) == 1 else None,
    ),
    "rate": Form(
        everyday.rate,
        _DELIVERY | {"--reason": "reason"},
        _NO_ONE | {"rater": "human", "reason": ""},
        lambda words: {"names": words[:-1], "rating": words[-1]} if len(words) > 1 else None,
    ),
    "record": Form(
        everyday.record,
        _DELIVERY,
        _NO_ONE | {"rater": RECORD_RATER},
        lambda words: {"file": words[0] if words else "-"} if len(words) <= 1 else None,
    ),
    "show": Form(everyday.show, {"--at": "when"}, {"when": None}, _none),
    "verify": Form(everyday.verify, {"--expect": "expect"}, {"expect": None, "salvaging": False}, _none),
}
"""Verb → how it is written where nothing but values stands on the command line."""


def read(arguments: Sequence[str]) -> Read | None:
    """Return what a command line says; None where Click must decide what was meant."""
    words = iter(arguments)
    folder, verb = None, next(words, None)
    while verb == "--project":
        folder, verb = next(words, None), next(words, None)
    form = VERBS.get(verb or "")
    if form is None or verb is None:
        return None
    options: dict[str, Any] = {**form.defaults, "as_json": False}
    rest = []
    for word in words:
        if word in form.valued:
            value = next(words, None)
            if value is None:
                return None
            options[form.valued[word]] = value
        elif word == "--json":
            options["as_json"] = True
        elif word == "-" or not word.startswith("-"):
            rest.append(word)
        else:
            return None
    found = form.rest(tuple(rest))
    return None if found is None else Read(folder, verb, options | found)


def run(said: Read) -> int:
    """Do what a command line says, and return the exit code."""

    def work() -> int:
        return VERBS[said.verb].do(find_project(said.folder, must_exist=True), said.options)

    return output.guarded(work)
