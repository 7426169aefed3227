"""Everybody can use the page: contrast and labels, computed without a browser, and names, focus and keys in one."""

from __future__ import annotations

from html.parser import HTMLParser
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from helpers.browser import Tab, append, chromium, opened, write_page
from helpers.documentation import section
from helpers.injections import injected
from helpers.repository import ROOT
from tallybook.ledger.events import PlaybookUpdated, PointAdded, PointCited, PointRated, PointRetired

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = ROOT / "projections" / "surfaces" / "page"
BROWSER: Final = PAGE / "browser"
TEXTS: Final = ("text", "faint", "accent", "good", "bad", "shown", "cited")
GROUNDS: Final = ("ground", "sheet", "raised", "chosen", "good-ground", "bad-ground")
VIEWS: Final = ("playbook", "lives", "graveyard", "sessions", "scores")
CONTROLS: Final = ("button", "input", "select", "textarea", "dialog", "section", "canvas", "svg")

SCHEMES: Final = re.findall(
    r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", (BROWSER / "page.css").read_text(encoding="utf-8")
)
COLOURS: Final = {scheme: {name: row[at] for name, *row in SCHEMES} for at, scheme in enumerate(("light", "dark"))}

KEYS: Final[dict[str, tuple[str, str, str]]] = {
    "j": ("event=3", "j", "body[data-event='4']"),
    "k": ("event=4", "k", "body[data-event='3']"),
    "n": ("event=3&entry=kpt_001", "n", "body[data-event='4']"),
    "p": ("event=4&entry=kpt_001", "p", "body[data-event='3']"),
    "g": ("", "g", "#go-dialog[open] #go-where:focus"),
    "space": ("event=3", " ", "#play:has-text('Pause')"),
    "Home": ("event=4", "Home", "body[data-event='0']"),
    "End": ("event=4", "End", "body[data-event='9']"),
    "/": ("", "/", "#query:focus"),
    "c": ("event=4", "c", "#compare[aria-pressed=true]:has-text('Compared with 4')"),
    "1 … 5": ("", "4", "body[data-tab=sessions]"),
    "Escape": ("q=hook&kind=point.cited", "Escape", "#events-note:has-text('9 events')"),
    "?": ("", "?", "#help-dialog[open] #help-title"),
}
"""A key as the help names it → the fragment before it, what is pressed, and what is there then."""

LIST_KEYS: Final = {"ArrowDown": 6, "ArrowUp": 3, "End": 9, "Home": 1, "PageUp": 1, "PageDown": 9}
"""A key in the list of events at event 4 → the event at which the moment ends to which it goes."""


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, by the Web Content Accessibility Guidelines."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", COLOURS)
def test_every_colour_of_text_has_contrast_on_every_ground(scheme: str) -> None:
    """Text has a contrast of 4.5 or more on each ground, and the edge of a control one of 3, in both schemes."""
    colours = COLOURS[scheme]
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS] + [("on-accent", "accent")]
    assert [] == [pair for pair in pairs if contrast(*(colours[name] for name in pair)) < 4.5]
    assert [] == [ground for ground in GROUNDS if contrast(colours["edge"], colours[ground]) < 3]


def test_every_colour_is_one_of_those() -> None:
    """Outside the list of colours no rule has one of its own but black with some transparency."""
    style = (BROWSER / "page.css").read_text(encoding="utf-8").partition("}")[2]
    assert {"rgb(0 0 0 / 45%)"} == set(re.findall(r"#[0-9a-f]{3,8}\b|(?:rgb|hsl)a?\([^)]*\)", style))
    assert set() == {*re.findall(r"var\(--([a-z-]+)", style)} - {name for name, *_ in SCHEMES} - {"tone", "shadow"}


class Markup(HTMLParser):
    """Reads which elements the template of the page has: tag, attributes and text of each."""

    def __init__(self) -> None:
        """Read the template."""
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[int] = []
        self.feed((BROWSER / "page.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self._open.append(len(self.elements))
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element; some have no end."""
        while self._open and self.elements[self._open.pop()][0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Add a text to every element that it is in."""
        for at in self._open:
            self.texts[at] += data.strip()


def test_every_control_of_the_template_has_a_label() -> None:
    """Buttons, fields, dialogs, sections and drawings have a text, a label or the mark that hides them."""
    markup = Markup()
    labels = {attributes["for"] for tag, attributes in markup.elements if tag == "label"}
    named = {"aria-label", "aria-labelledby", "aria-hidden"}
    bare = [
        (tag, attributes)
        for (tag, attributes), text in zip(markup.elements, markup.texts, strict=True)
        if tag in CONTROLS
        and named.isdisjoint(attributes)
        and attributes.get("id") not in labels
        and not (tag == "button" and text)
    ]
    assert [] == bare
    ids = [attributes["id"] for _, attributes in markup.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_template_has_landmarks_and_a_language() -> None:
    """There is one header, search, main part and footer, a language, a live region and a link that skips the header."""
    elements = Markup().elements
    tags = [tag for tag, _ in elements]
    assert [1] * 5 == [tags.count(tag) for tag in ("header", "search", "main", "footer", "h1")]
    assert ("html", {"lang": "en"}) in elements
    assert {"polite"} == {attributes["aria-live"] for _, attributes in elements if "aria-live" in attributes}
    assert "skip" in {attributes.get("class") for tag, attributes in elements if tag == "a"}


def test_the_readme_lists_the_keys_of_the_help() -> None:
    """Each key of the help is in the table of the page's README, and no other."""
    rows = section("projections/surfaces/page/README.md", "Use it").splitlines()
    cells = " ".join(row.split("|")[1] for row in rows if row.startswith("|"))
    listed = re.findall(r"`([^`]+)`|(space|Home|End|Escape)", cells)
    assert {key for keys in listed for key in keys if key} == {key for keys in KEYS for key in keys.split(" … ")}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """Return the page of nine events."""
    folder = tmp_path_factory.mktemp("page") / "project"
    log = opened(folder)
    update = PlaybookUpdated(0, 1, 0)
    append(log, [PointAdded("kpt_001", "Read the error."), update])
    append(log, [PointRated("kpt_001", "helpful")])
    append(log, [PointAdded("kpt_002", "Ask first."), update])
    append(log, [injected(("kpt_001",), 0), PointCited("kpt_001", "message")], "s2", "hook")
    append(log, [PointRetired("kpt_002", "")], "s2", "human")
    with chromium() as browser:
        yield Tab(browser, write_page(folder))


def test_the_help_lists_the_keys_that_are_tested(tab: Tab) -> None:
    """Each key of the help has a test of its own here."""
    tab.open("")
    tab.page.keyboard.press("?")
    assert list(KEYS) == tab.page.locator("#help-keys dt").all_inner_texts()
    tab.page.keyboard.press("Escape")


@pytest.mark.parametrize("key", KEYS)
def test_a_key_does_what_the_help_says(tab: Tab, key: str) -> None:
    """The key leads to what the help names, and is no key while somebody writes into the search."""
    fragment, pressed, expected = KEYS[key]
    tab.page.goto("about:blank")
    tab.open(fragment)
    tab.page.keyboard.press(pressed)
    tab.page.locator(expected).wait_for(state="attached")
    if key in {"Home", "End", "Escape"}:
        return
    tab.page.goto("about:blank")
    tab.open("event=4&entry=kpt_001")
    tab.page.focus("#query")
    tab.page.keyboard.press(pressed)
    assert pressed == tab.page.input_value("#query")


@pytest.mark.parametrize("key", LIST_KEYS)
def test_a_list_is_moved_through_by_its_keys(tab: Tab, key: str) -> None:
    """Arrows, Home, End and the page keys move through the events in sight, of which one is the active one."""
    tab.page.goto("about:blank")
    tab.open("event=4")
    tab.page.focus("#event-list")
    tab.page.keyboard.press(key)
    tab.at(LIST_KEYS[key])
    active = tab.page.get_attribute("#event-list", "aria-activedescendant")
    assert "true" == tab.page.get_attribute(f"#{active}", "aria-selected")


def test_arrows_move_through_the_views(tab: Tab) -> None:
    """In the row of views the arrows choose the next and the one before, in a circle, with the focus on it."""
    tab.open("")
    tab.page.focus("#tab-playbook")
    for key, view in [("ArrowRight", "lives"), ("ArrowLeft", "playbook"), ("ArrowLeft", "scores")]:
        tab.page.keyboard.press(key)
        tab.at(9, tab=view)
        assert f"tab-{view}" == tab.page.evaluate("document.activeElement.id")


def nodes(tab: Tab) -> list[dict[str, Any]]:
    """Return what a screen reader is given: role, name and properties of each node."""
    session = tab.page.context.new_cdp_session(tab.page)
    tree: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node for node in tree if not node["ignored"]]


@pytest.mark.parametrize("view", VIEWS)
def test_everything_that_takes_the_focus_has_a_name(tab: Tab, view: str) -> None:
    """In each view, with an entry and a session chosen, the browser computes a name for every control."""
    tab.open(f"tab={view}&entry=kpt_001&session=s2&since=3")
    focusable = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes(tab)
        if any(one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", ()))
        and node["role"]["value"] != "RootWebArea"
    ]
    assert len(focusable) > 20
    assert [] == [row for row in focusable if not row[1]]
    ids = tab.page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))


REACHABLE: Final = """() => [...document.querySelectorAll("a, button, input, select, [tabindex]")]
  .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility()).length"""
VISIT: Final = """() => {
  const { activeElement: one } = document, style = getComputedStyle(one);
  const again = one.dataset.visited !== undefined;
  one.dataset.visited = "";
  return [one === document.body, again, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
}"""


@pytest.mark.parametrize("view", VIEWS)
def test_the_tab_key_reaches_every_control_and_shows_where_it_is(tab: Tab, view: str) -> None:
    """Tab visits each control once and begins with the link that skips the header; each shows its focus."""
    tab.page.goto("about:blank")
    tab.open(f"event=4&tab={view}&entry=kpt_001&session=s2")
    expected, visited = tab.page.evaluate(REACHABLE), 0
    for _ in range(expected + 2):
        tab.page.keyboard.press("Tab")
        is_outside, again, is_shown = tab.page.evaluate(VISIT)
        if is_outside or again:
            break
        assert is_shown, tab.page.evaluate("document.activeElement.outerHTML.slice(0, 150)")
        visited += 1
    assert expected == visited


def test_the_focus_stays_where_somebody_works(tab: Tab) -> None:
    """A link that is followed by keyboard keeps the focus after the page was drawn again, or gives it to its part."""
    tab.page.goto("about:blank")
    tab.open("event=9&entry=kpt_001")
    tab.page.focus('#why [aria-label="Go to event 4"]')
    tab.page.keyboard.press("Enter")
    tab.at(4)
    assert "Go to event 4" == tab.page.evaluate("document.activeElement.ariaLabel")
    tab.page.focus("#change .link")
    tab.page.keyboard.press("End")
    tab.at(9)
    assert tab.page.evaluate("document.activeElement.closest('#change') !== null")


def test_a_filter_is_named_and_cleared_in_every_view(tab: Tab) -> None:
    """With a session chosen, the list says of which its events are, and one button shows all again."""
    tab.page.goto("about:blank")
    tab.open("event=9&session=s2")
    assert "3 of 9 events match in s2 Show all" == tab.text("#events-note")
    tab.page.click("#events-note button")
    # The whole text: the note of the filter also says how many events there are.
    tab.page.locator("#events-note", has_text=re.compile(r"^9 events$")).wait_for()
    assert "9 events" == tab.text("#events-note")
