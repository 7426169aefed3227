"""The pages that were written into a project: no redaction reaches what they hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tallybook.projections.surfaces.page.document import is_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.workspace.project import Project

MAX_FILES: Final = 50_000
"""Most files whose names are looked at: a search for pages must not take longer than the command that it serves."""

_SUFFIXES: Final = (".html", ".htm")
_SKIPPED: Final = frozenset({"node_modules"})


def find_pages(project: Project) -> list[Path]:
    """Return the pages in a project's folder, without hidden folders; in a large project those found first."""
    return sorted(path for path in _candidates(project) if _is_page(path))


def _candidates(project: Project) -> Iterator[Path]:
    seen = 0
    for folder, folders, names in os.walk(project.root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        seen += len(names)
        yield from (Path(folder, name) for name in names if name.lower().endswith(_SUFFIXES))
        if seen > MAX_FILES:
            return


def _is_page(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and is_page(path)
    except OSError:
        return False
