"""The verb `export`: entries in a file that agents without hooks read, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from tallybook.projections.surfaces.agents.inside import require_person
from tallybook.projections.surfaces.console.options import Verb
from tallybook.projections.surfaces.console.output import answer, format_count, note, say
from tallybook.projections.surfaces.hooks.blocks import AGENTS_MD
from tallybook.projections.surfaces.selection import exported

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project

_FORMATS: Final = {"agents-md": (exported.export, AGENTS_MD)}
"""Format → the function that writes a file in it, and the file where none is named."""


@click.command(cls=Verb, example="tallybook export agents-md; tallybook export agents-md CLAUDE.md")
@click.argument("form", metavar="FORMAT", type=click.Choice([*_FORMATS]))
@click.argument("file", required=False)
def export(project: Project, /, *, form: str, file: str | None, as_json: bool) -> None:
    """Write entries into a file that agents read.

    FORMAT is agents-md: the entries that a person typed, accepted or pinned, at most 2,000 characters, between two
    markers in AGENTS.md, or in FILE: CLAUDE.md, GEMINI.md or .cursor/rules/tallybook.mdc, a file of its own. What is
    outside of the markers stays. No hook writes it: export again when `tallybook check` says that it is old. Hooks do
    not inject what a file gives already.
    """
    require_person("export")
    write, default = _FORMATS[form]
    done = write(project, file or default)
    note(*(f"{name} is left out: {why}" for name, why in done.chosen.left_out.items()))
    names = [entry["name"] for entry in done.chosen.entries]
    if as_json:
        answer({"file": done.name, "changed": done.is_changed, "names": names, "left_out": dict(done.chosen.left_out)})
        return
    number = format_count(len(names), "entry", "entries")
    say(f"{done.name} {'written' if done.is_changed else 'has them already'}: {number}")
