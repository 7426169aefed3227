"""Everybody can use the page: names, focus and keys in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from helpers.browser import Tab, append, chromium, opened, write_page
from helpers.injections import injected
from tallybook.ledger.events import PlaybookUpdated, PointAdded, PointCited, PointRated, PointRetired

if TYPE_CHECKING:
    from collections.abc import Iterator

VIEWS: Final = ("playbook", "lives", "former", "sessions", "scores")
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
