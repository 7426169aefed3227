"""The pages of the documentation: their links, their headings, their length and their words."""

from __future__ import annotations

import re

import pytest

from helpers.documentation import FIRST, LEDGER, PAGES, anchor, headings, prose, section
from helpers.repository import ROOT

REFERENCE = sorted(set(PAGES) - {"CHANGELOG.md"})
MOST_LINES = 250


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_link_leads_somewhere(page: str) -> None:
    """A link within the repository names a file or folder that exists, and a heading that the page has."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(PAGES[page])):
        if re.match(r"[a-z]+://", target):
            continue
        path, _, heading = target.partition("#")
        place = (ROOT / page).parent / path if path else ROOT / page
        name = str(place.resolve().relative_to(ROOT))
        if not place.exists() or (heading and heading not in {anchor(text) for _, text in headings(name)}):
            broken.append(target)
    assert [] == broken


@pytest.mark.parametrize("page", sorted(PAGES))
def test_headings_differ(page: str) -> None:
    """No two headings of a page have the same link."""
    anchors = [anchor(text) for _, text in headings(page)]
    if page != "CHANGELOG.md":
        assert sorted(set(anchors)) == sorted(anchors)


def test_the_first_page_is_short() -> None:
    """A stranger reads it to the end."""
    assert MOST_LINES >= len(PAGES[FIRST].splitlines())


@pytest.mark.parametrize("page", REFERENCE)
def test_every_named_path_exists(page: str) -> None:
    """A file of the repository that a page names in code exists; files of a project are in the table of files."""
    paths = set(re.findall(r"`((?:ledger|projections|prompts|tests|\.ci)/[\w./-]+)`", prose(PAGES[page])))
    missing = {path for path in paths if "NAME" not in path and not (ROOT / path).exists()}
    assert set() == missing - set(re.findall(r"`(ledger/[\w./-]+)`", section(LEDGER, "Files")))
