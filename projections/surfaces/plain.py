"""``tallybook record`` with its options spelled out, as hooks and scripts write it: without Click."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger import strict
from projections.surfaces import answers, commands
from projections.surfaces.project import find_project

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUED = {"--project", "--key", *(f"--{field}" for field in answers.BY_OPTIONS)}
RECORD_RATER = "reflector"


def read(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the options of a plain ``record``; None where Click must decide what was meant."""
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if word in VALUED:
            # Before the verb there is the project's option, behind it there are the others.
            value = next(words, None)
            if value is None or (word == "--project") is ("verb" in options):
                return None
            options[word.removeprefix("--")] = value
        elif word == "--json" and "verb" in options:
            options["json"] = word
        elif word == "record" and "verb" not in options:
            options["verb"] = word
        elif "verb" in options and "file" not in options and (word == "-" or not word.startswith("-")):
            options["file"] = word
        else:
            return None
    return options if "verb" in options else None


def record(options: dict[str, str]) -> int:
    """Record what stands on standard input or in a file, and return the exit code."""

    def work() -> int:
        project = find_project(options.get("project"), must_exist=True)
        by = answers.said_by({"rater": RECORD_RATER} | options)
        payload = strict.loads(*answers.read_input(options.get("file", "-")))
        answers.told(commands.record(project, payload, by, options.get("key")), as_json="json" in options)
        return 0

    return answers.guarded(work)
