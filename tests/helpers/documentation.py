"""The documentation: every page of it, its sections, its examples and its links."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from helpers.commands import ROOT

FIRST: Final = "README.md"
COMMANDS: Final = "projections/surfaces/COMMANDS.md"
HOOKS: Final = "projections/surfaces/HOOKS.md"
FILES: Final = "projections/surfaces/FILES.md"
LEDGER: Final = "ledger/README.md"
TELEMETRY: Final = "ledger/telemetry/README.md"
VIEWS: Final = "projections/README.md"
FAULTS: Final = "tests/faults/README.md"
CONTRIBUTING: Final = "CONTRIBUTING.md"
FOLDERS: Final = ("ledger", "projections", "tests")

PAGES: Final = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *(path for name in FOLDERS for path in (ROOT / name).rglob("*.md"))])
}
"""Path in the repository → text of every page."""


class CodeBlock(NamedTuple):
    """A fenced block of a page, with the word after the fence."""

    page: str
    language: str
    code: str


def examples(*languages: str) -> list[CodeBlock]:
    """Return the fenced blocks of these languages, of all pages."""
    found = [
        CodeBlock(page, language, code)
        for page, text in PAGES.items()
        for language, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]
    return [example for example in found if example.language in languages]


def prose(text: str) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def section(page: str, heading: str) -> str:
    """Return a page's text below a heading, up to the next one of any level."""
    return PAGES[page].split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]


def chapter(page: str, heading: str) -> str:
    """Return a page's text below a heading of the second level, with the sections in it."""
    return PAGES[page].split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def headings(page: str) -> list[tuple[int, str]]:
    """Return level and text of each heading of a page, in order."""
    return [(len(marks), text) for marks, text in re.findall(r"^(#+) (.*)$", prose(PAGES[page]), re.MULTILINE)]


def anchor(heading: str) -> str:
    """Return the name by which a link leads to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def first_cells(text: str) -> list[str]:
    """Return the first cell of each row of the tables in a text."""
    return [row.split("|")[1].strip() for row in text.splitlines() if row.startswith("| ") and "---" not in row]
