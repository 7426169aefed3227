"""Which steps an installation takes, and which take it back: looked up and decided here, nothing is changed."""

from __future__ import annotations

from pathlib import Path
import re
from typing import TYPE_CHECKING, Final

import attrs

from tallybook import prompts
from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.install import hook_command, hook_entries, places, steps
from tallybook.projections.surfaces.install.hook_entries import UNCHANGED
from tallybook.projections.surfaces.install.steps import LEFT, Step
from tallybook.projections.surfaces.writing.record import write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tallybook.projections.surfaces.install.places import Target
    from tallybook.projections.surfaces.workspace.project import Project

PACKAGED: Final = Path(prompts.__file__).parent
BACKUP: Final = "settings.json.before-tallybook"
CONFIG: Final = "tallybook.toml"

_CHANGED: Final = "not as this version writes it, so it is yours"
# What a slash command may run stands in its front matter.
_VERB = re.compile(rb"Bash\(tallybook ([a-z-]+)")


def install(place: Target, line: str, verbs: Collection[str]) -> tuple[Step, ...]:
    """Return the steps of an installation, the settings' own last: the agent is told once the rest stands.

    Args:
        place: What is installed into.
        line: The command line of the hook.
        verbs: Those that the command line has: a slash command that runs another is not installed.
    """
    path = places.settings_file(place)
    before = steps.read(path)
    after = hook_entries.install(before, line, str(path))
    found = [_packaged(place.claude / name, data) for name, data in _files(verbs).items()]
    # What has our hooks already, and changes in their command lines alone, is not what it was before us.
    fresh = before is not None and before != after and not hook_entries.calls_everywhere(before, str(path))
    saved = [_backup(place, before)] if before is not None and fresh else []
    why = "has the hooks already" if before == after else ""
    return *found, *saved, attrs.evolve(steps.write(path, before, after, why), shown=True)


def remarks(planned: Sequence[Step]) -> tuple[str, ...]:
    """Return what a person should know of the hooks that an installation ends with, a line each."""
    path, after = planned[-1].path, planned[-1].after or b""
    return tuple(filter(None, map(hook_command.remark, dict.fromkeys(hook_entries.own_commands(after, str(path))))))


def _backup(place: Target, before: bytes) -> Step:
    path = place.claude / BACKUP
    if not steps.is_plain(path):
        raise CannotWriteError(path, "is not a regular file", f"move it away; {UNCHANGED}")
    kept = steps.read(path)
    why = "the settings as they were" if kept is None else "a backup from before, kept as it is"
    return steps.write(path, kept, before, why) if kept is None else Step(path, LEFT, why)


def _packaged(path: Path, data: bytes) -> Step:
    """Return the step for a file that we bring: what stands there already is left."""
    if not steps.is_plain(path):
        return Step(path, LEFT, "a link or no file stands in its place")
    before = steps.read(path)
    if before is None or before == data:
        return steps.write(path, before, data)
    return Step(path, LEFT, _CHANGED)


def _files(verbs: Collection[str] | None = None) -> Mapping[str, bytes]:
    """Return the files that we bring, by their place in the agent's folder; for uninstalling, whatever they run."""
    found = {f"commands/{one.name}": one.read_bytes() for one in sorted((PACKAGED / "commands").glob("*.md"))}
    known = {name: data for name, data in found.items() if verbs is None or _runs(data) <= set(verbs)}
    return known | {f"config/{CONFIG}": (PACKAGED / CONFIG).read_bytes()}


def _runs(data: bytes) -> set[str]:
    """Return the verbs that a slash command may run."""
    return {verb.decode() for verb in _VERB.findall(data)}


def uninstall(place: Target) -> tuple[Step, ...]:
    """Return the steps that take an installation back; none where there is nothing of ours."""
    path = places.settings_file(place)
    before = steps.read(path)
    found = [] if before is None else list(_without_hooks(place, path, before))
    return *found, *(step for name, data in _files().items() for step in _unpacked(place.claude / name, data))


def _without_hooks(place: Target, path: Path, before: bytes) -> Iterator[Step]:
    """Yield the steps for the settings: as they were before us, or else as they are without us."""
    backup = place.claude / BACKUP
    kept = steps.read(backup) if steps.is_plain(backup) else None
    gone = Step(backup, "deleted", "no longer needed", kept)
    own = hook_entries.own_commands(before, str(path))
    if not own:
        yield from [gone] if kept == before else ()
    elif any(_installed(kept, line, str(backup)) == before for line in dict.fromkeys(own)):
        yield Step(path, "deleted" if kept is None else "restored", "as it was before", before, kept, shown=True)
        yield from [gone] if kept is not None else ()
    else:
        after = hook_entries.remove(before, str(path))
        if after != before:
            yield Step(path, "changed", "the hooks are taken out, the rest stays", before, after, shown=True)
        if own := hook_entries.own_commands(after, str(path)):
            yield Step(path, LEFT, f"`{own[0]}` does more than call Tallybook, take it out by hand")
        if kept is not None:
            yield Step(backup, LEFT, "not put back, as more than our hooks would change")


def _installed(data: bytes | None, line: str, source: str) -> bytes | None:
    """Return what an installation makes of settings; None where it refuses them, or where they had hooks of ours."""
    try:
        by_hand = data is not None and hook_entries.remove(data, source) != data
        return None if by_hand else hook_entries.install(data, line, source)
    except BadInputError:
        return None


def _unpacked(path: Path, data: bytes) -> Iterator[Step]:
    """Yield the step for a file that we brought: taken away unless somebody has changed it."""
    if steps.is_plain(path) and (before := steps.read(path)) is not None:
        yield Step(path, "deleted", before=before) if before == data else Step(path, LEFT, _CHANGED)


def ledger(project: Project) -> Step:
    """Return the step that begins a project's ledger; where there is one, it is left."""
    path = project.ledger / "events.jsonl"
    if open_log(project).exists():
        return Step(path, LEFT, "the ledger goes on")
    return Step(path, "created", f"from {project.playbook}" if project.playbook.exists() else "with an empty playbook")


def begin(project: Project) -> tuple[str, ...]:
    """Begin a project's ledger, from its ``playbook.json`` if it has one; return what was odd, a line each."""
    report = write(project, [], begin=True)
    odd = [] if report.unrendered is None else [str(report.unrendered)]
    return *map(str, report.problems), *odd
