"""The pages of the documentation: their links, their headings, their length and their words."""

from __future__ import annotations

import re

import pytest

from helpers.documentation import FIRST, LEDGER, PAGES, anchor, chapter, headings, prose, section
from helpers.repository import ROOT

REFERENCE = sorted(set(PAGES) - {"CHANGELOG.md"})
SHORT = 120
"""A page of so many lines needs no table of contents."""
LONG = sorted(page for page in REFERENCE if len(PAGES[page].splitlines()) > SHORT)
DIALECT = re.compile(
    r"\b(behind|besides?|whoever|likewise|owed|told|stands|stood|blotted|mends|ails)\b",
    re.IGNORECASE,
)
"""Words of an earlier dialect, for which plain words are used now."""
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


@pytest.mark.parametrize("page", LONG)
def test_the_contents_list_every_section(page: str) -> None:
    """The table of contents names the headings of the second level, in their order."""
    listed = PAGES[page].split("## Contents\n", 1)[1].split("\n## ", 1)[0]
    sections = [text for level, text in headings(page) if level == 2 and text != "Contents"]
    assert [f"- [{text}](#{anchor(text)})" for text in sections] == listed.strip().splitlines()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_headings_differ(page: str) -> None:
    """No two headings of a page have the same link."""
    anchors = [anchor(text) for _, text in headings(page)]
    if page != "CHANGELOG.md":
        assert sorted(set(anchors)) == sorted(anchors)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_no_numbered_list_is_split(page: str) -> None:
    """No blank line separates two steps of a numbered list."""
    assert [] == re.findall(r"^[0-9]+\. .*\n\n(?=[0-9]+\. )", PAGES[page], re.MULTILINE)


def test_the_first_page_is_short() -> None:
    """A stranger reads it to the end."""
    assert MOST_LINES >= len(PAGES[FIRST].splitlines())


@pytest.mark.parametrize("page", REFERENCE)
def test_one_sentence_is_one_line(page: str) -> None:
    """A line of a paragraph holds one sentence."""
    lines = [line for line in prose(PAGES[page]).splitlines() if not re.match(r"\||[-*] |\d+\. ", line)]
    assert [] == [line for line in lines if re.search(r"[a-z)`\"][.!?] [A-Z]", line)]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_words_are_plain(page: str) -> None:
    """Prose has none of the words for which the project's vocabulary has plainer ones."""
    # Names of benchmarks are those that the program prints.
    text = re.sub(r"`[^`\n]*`|^\| .* \d x \d+ \|$", "", prose(PAGES[page]), flags=re.MULTILINE)
    assert [] == [line for line in text.splitlines() if DIALECT.search(line)]


@pytest.mark.parametrize("page", REFERENCE)
def test_every_named_path_exists(page: str) -> None:
    """A file of the repository that a page names in code exists; files of a project are in the table of files."""
    paths = set(re.findall(r"`((?:ledger|projections|prompts|tests|\.ci)/[\w./-]+)`", prose(PAGES[page])))
    missing = {path for path in paths if "NAME" not in path and not (ROOT / path).exists()}
    assert set() == missing - set(re.findall(r"`(ledger/[\w./-]+)`", section(LEDGER, "Files")))


@pytest.mark.parametrize("page", [page for page in REFERENCE if "\n## Decisions\n" in PAGES[page]])
def test_a_decision_is_three_lines(page: str) -> None:
    """After its name and date are its context, the decision and its consequence, a line each."""
    blocks = [block for block in chapter(page, "Decisions").strip().split("\n\n") if block.startswith("**")]
    form = re.compile(r"\*\*.+\*\* \(\d{4}-\d\d-\d\d\)\n- Context: .+\n- Decision: .+\n- Consequence: .+")
    assert [] == [block for block in blocks if not form.fullmatch(block.strip())]
    assert len(blocks) > 5
