"""The packaged files that ``init`` copies: commented settings, and slash commands or skills in each agent's form."""

from __future__ import annotations

from pathlib import Path
import re
from typing import TYPE_CHECKING, Final

import attrs

from tallybook import prompts
from tallybook.projections.surfaces.agents.installation import Prompt
from tallybook.projections.surfaces.install import places

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallybook.projections.surfaces.agents.installation import Installation
    from tallybook.projections.surfaces.install.places import InstallTarget

PACKAGED: Final = Path(prompts.__file__).parent
CONFIG: Final = "tallybook.toml"

# The front matter of a slash command lists what it may run.
_VERB: Final = re.compile(r"Bash\(tallybook ([a-z-]+)")
_DESCRIPTION: Final = re.compile(r"^description: (.*)$", re.MULTILINE)


@attrs.frozen
class PackagedFile:
    """A file that ``init`` writes.

    Attributes:
        path: Its path.
        data: Its bytes.
        top: The folder above it that is not ours to create or remove.
    """

    path: Path
    data: bytes
    top: Path


def config_file(target: InstallTarget) -> PackagedFile:
    """Return the commented settings, which all agents share."""
    folder = places.own_folder(target)
    return PackagedFile(folder / "config" / CONFIG, (PACKAGED / CONFIG).read_bytes(), folder)


def prompt_files(
    target: InstallTarget, files: Installation, verbs: Collection[str] | None = None
) -> Iterator[PackagedFile]:
    """Yield an agent's slash commands or skills; only those that run these verbs, if any are given."""
    if files.prompts is None:
        return
    top = target.base / files.prompts.folder if files.prompts.folder else places.agent_folder(target, files)
    for path in sorted((PACKAGED / "commands").glob("*.md")):
        prompt = read_prompt(path)
        if verbs is None or verbs_of(prompt.text) <= set(verbs):
            data = files.prompts.form(prompt).encode()
            yield PackagedFile(
                top / files.prompts.path.format(prompt.name), data, places.top_folder(target, files, top)
            )


def read_prompt(path: Path) -> Prompt:
    """Return a packaged slash command."""
    text = path.read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    described = _DESCRIPTION.search(front)
    return Prompt(path.stem, described[1] if described else path.stem, body.lstrip("\n"), text)


def verbs_of(text: str) -> set[str]:
    """Return the verbs that a slash command may run."""
    return set(_VERB.findall(text))
