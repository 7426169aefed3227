"""The page in a browser: nothing in a text harms it, everybody can use it, and a server refreshes it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from helpers.browser import Tab, append, opened, write_page
from helpers.injections import injected
from helpers.real_command import run
from helpers.repository import ROOT
from helpers.score_examples import record_example
from tallybook.ledger.events import PlaybookUpdated, PointAdded, PointCited, PointRated, PointRetired
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


# Hostile texts

HOSTILE = {
    "markup": '<img src="http://example.invalid/x.png" onerror="alert(1)"><b>bold</b>',
    "script": "</script><script>alert(2)</script>",
    "comment": "<!--data--><!--script--><!--",
    "marks": "right\u202eto left\u202c \u2066isolated\u2069 \u200e",
    "template": "${alert(3)} {{alert(4)}} &lt;i&gt; &amp;",
    "long": "word " * 20_000,
    "lines": "first\nsecond\tthird\r\nfourth\u2028fifth",
    "link": "javascript:alert(5)",
}
SESSION = "$(touch /tmp/never); `id` '\"<b>"
CONTROL = "bell\u0007"
AXE = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
TABS = ("playbook", "lives", "former", "sessions", "scores")


def write_hostile(folder: Path) -> Path:
    """Write the page of a playbook whose every text would do harm as markup."""
    log = opened(folder)
    update = PlaybookUpdated(0, 1, 0)
    append(log, [*(PointAdded(f"<{name}>", text) for name, text in HOSTILE.items()), update], SESSION)
    append(log, [injected(("<markup>",), 0)], SESSION, "<i>hook</i>")
    append(log, [PointCited("<markup>", "<u>tool</u>")], CONTROL, "<i>hook</i>")
    append(log, [PointRated("<script>", "harmful"), PointRated("<marks>", "helpful"), update], CONTROL)
    append(log, [PointRetired("<link>", "<s>reason</s>")], "plain", "human")
    return write_page(folder, with_quotes=True)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a hostile page."""
    return write_hostile(tmp_path_factory.mktemp("page") / "project<b>")


@pytest.fixture(scope="module")
def tab(browser: Browser, file: Path) -> Tab:
    """Return the hostile page, open."""
    return Tab(browser, file)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_shown_as_text(tab: Tab, name: str) -> None:
    """Markup, scripts, marks of direction, line ends and 100 kB are inserted as text, character by character."""
    tab.page.goto("about:blank")
    tab.open(f"entry=%3C{name}%3E")
    shown = tab.page.locator("#why .quote").evaluate("element => element.textContent")
    assert HOSTILE[name] == shown
    assert f"Why <{name}>" == tab.page.locator("#why-title").evaluate("element => element.textContent")


@pytest.mark.parametrize("view", TABS)
def test_no_view_makes_an_element_of_a_text(tab: Tab, view: str) -> None:
    """No view of the hostile page has an image, a script or another element that its texts name."""
    tab.open(f"tab={view}&q=%3Cimg src=x onerror=alert(1)%3E&rater=%3Ci%3Ehook&entry=%3Cmarkup%3E")
    tab.open(f"tab={view}&entry=%3Cmarkup%3E")
    assert 0 == tab.page.locator("body :is(img, b:not(#moment b), i, s, u, iframe, a:not(.skip))").count()
    assert 0 == tab.page.locator("[onerror], [style*=expression]").count()


def test_nothing_leaves_the_page_and_the_console_stays_empty(tab: Tab) -> None:
    """No hostile text caused a request, a message, an error or a dialog."""
    assert [] == [line for line in tab.noise if not line.startswith((tab.address, "about:blank"))]


def test_a_copied_command_quotes_its_value_and_refuses_control_characters(tab: Tab) -> None:
    """A session id that a shell would run is quoted; with control characters there is no command but a reason."""
    tab.open("tab=sessions")
    tab.page.locator("#entries [role=option]", has_text="$(touch").click()
    tab.settle()
    commands = tab.page.locator("#session .copy code")
    quoted = "'$(touch /tmp/never); `id` '\"'\"'\"<b>'"
    assert f"tallybook undo --of={quoted}" in commands.all_inner_texts()
    tab.page.locator("#entries [role=option]", has_text="bell").click()
    tab.page.locator("#session", has_text="no command, because").wait_for()
    assert 0 == commands.count()


@pytest.mark.parametrize(("scheme", "rules"), [("light", ""), ("dark", "{runOnly: ['color-contrast']}")])
def test_axe_finds_nothing(browser: Browser, file: Path, scheme: Any, rules: str) -> None:
    """Roles, names, landmarks, focus and contrast hold in every view, and contrast in both colour schemes."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed, which checks accessibility; .ci/run installs it with npm")
    tab = Tab(browser, file, color_scheme=scheme)
    tab.page.evaluate(AXE.read_text(encoding="utf-8"))
    for view in TABS:
        tab.page.evaluate("words => { location.hash = words; }", f"tab={view}&entry=%3Cmarks%3E&session=plain")
        tab.page.locator(f"body[data-tab={view}]").wait_for(state="attached")
        found = tab.page.evaluate(f"axe.run({rules})")["violations"]
        rows = [(rule["id"], [node["html"][:150] for node in rule["nodes"][:3]]) for rule in found]
        assert [] == rows, view
    tab.page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (768, "dark"), (2560, "light")])
def test_every_width_shows_everything_without_scrolling_sideways(
    browser: Browser, file: Path, width: int, scheme: Any
) -> None:
    """From 360 to 2,560 pixels nothing is wider than the window, also on paper."""
    tab = Tab(browser, file, color_scheme=scheme)
    tab.page.set_viewport_size({"width": width, "height": 800})
    for view in TABS:
        tab.page.evaluate("words => { location.hash = words; }", f"tab={view}&entry=%3Clong%3E&session=plain")
        tab.page.locator(f"body[data-tab={view}]").wait_for(state="attached")
        assert width == tab.page.evaluate("document.documentElement.scrollWidth"), view
    tab.page.emulate_media(media="print")
    assert width == tab.page.evaluate("document.documentElement.scrollWidth")
    tab.page.context.close()


def test_nothing_moves_by_itself_for_those_who_ask_for_less_motion(browser: Browser, file: Path) -> None:
    """With reduced motion asked for, no element has a transition or an animation."""
    tab = Tab(browser, file, reduced_motion="reduce")
    moving = """() => [...document.querySelectorAll("*")].map((one) => getComputedStyle(one))
        .filter((style) => style.transitionDuration !== "0s" || style.animationName !== "none").length"""
    assert 0 == tab.page.evaluate(moving)
    tab.page.context.close()


# Names, focus and keys

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
def nine(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Tab:
    """Return the page of nine events."""
    folder = tmp_path_factory.mktemp("page") / "project"
    log = opened(folder)
    update = PlaybookUpdated(0, 1, 0)
    append(log, [PointAdded("kpt_001", "Read the error."), update])
    append(log, [PointRated("kpt_001", "helpful")])
    append(log, [PointAdded("kpt_002", "Ask first."), update])
    append(log, [injected(("kpt_001",), 0), PointCited("kpt_001", "message")], "s2", "hook")
    append(log, [PointRetired("kpt_002", "")], "s2", "human")
    return Tab(browser, write_page(folder))


@pytest.mark.parametrize("key", KEYS)
def test_a_key_does_what_the_help_says(nine: Tab, key: str) -> None:
    """The key leads to what the help names, and is no key while somebody writes into the search."""
    fragment, pressed, expected = KEYS[key]
    nine.page.goto("about:blank")
    nine.open(fragment)
    nine.page.keyboard.press(pressed)
    nine.page.locator(expected).wait_for(state="attached")
    if key in {"Home", "End", "Escape"}:
        return
    nine.page.goto("about:blank")
    nine.open("event=4&entry=kpt_001")
    nine.page.focus("#query")
    nine.page.keyboard.press(pressed)
    assert pressed == nine.page.input_value("#query")


@pytest.mark.parametrize("key", LIST_KEYS)
def test_a_list_is_moved_through_by_its_keys(nine: Tab, key: str) -> None:
    """Arrows, Home, End and the page keys move through the events in sight, of which one is the active one."""
    nine.page.goto("about:blank")
    nine.open("event=4")
    nine.page.focus("#event-list")
    nine.page.keyboard.press(key)
    nine.at(LIST_KEYS[key])
    active = nine.page.get_attribute("#event-list", "aria-activedescendant")
    assert "true" == nine.page.get_attribute(f"#{active}", "aria-selected")


def nodes(nine: Tab) -> list[dict[str, Any]]:
    """Return what a screen reader is given: role, name and properties of each node."""
    session = nine.page.context.new_cdp_session(nine.page)
    tree: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node for node in tree if not node["ignored"]]


@pytest.mark.parametrize("view", TABS)
def test_everything_that_takes_the_focus_has_a_name(nine: Tab, view: str) -> None:
    """In each view, with an entry and a session chosen, the browser computes a name for every control."""
    nine.open(f"tab={view}&entry=kpt_001&session=s2&since=3")
    focusable = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes(nine)
        if any(field["name"] == "focusable" and field["value"]["value"] for field in node.get("properties", ()))
        and node["role"]["value"] != "RootWebArea"
    ]
    assert len(focusable) > 20
    assert [] == [row for row in focusable if not row[1]]
    ids = nine.page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))


REACHABLE: Final = """() => [...document.querySelectorAll("a, button, input, select, [tabindex]")]
  .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility()).length"""
VISIT: Final = """() => {
  const { activeElement: one } = document, style = getComputedStyle(one);
  const again = one.dataset.visited !== undefined;
  one.dataset.visited = "";
  return [one === document.body, again, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
}"""


@pytest.mark.parametrize("view", TABS)
def test_the_tab_key_reaches_every_control_and_shows_where_it_is(nine: Tab, view: str) -> None:
    """Tab visits each control once and begins with the link that skips the header; each shows its focus."""
    nine.page.goto("about:blank")
    nine.open(f"event=4&tab={view}&entry=kpt_001&session=s2")
    expected, visited = nine.page.evaluate(REACHABLE), 0
    for _ in range(expected + 2):
        nine.page.keyboard.press("Tab")
        is_outside, again, is_shown = nine.page.evaluate(VISIT)
        if is_outside or again:
            break
        assert is_shown, nine.page.evaluate("document.activeElement.outerHTML.slice(0, 150)")
        visited += 1
    assert expected == visited


# Scores, texts, and pages that a server keeps up to date

SERVE = [sys.executable, "-m", "tallybook", "page", "--serve", "--json"]


class Served(NamedTuple):
    """A server of a page, and its address."""

    process: subprocess.Popen[str]
    address: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project with a retired entry and a reason."""
    made = tmp_path / "project"
    log = opened(made)
    append(log, [PointAdded("kpt_001", "A text of an entry."), PlaybookUpdated(1, 0, 0)], "secret-session")
    append(log, [PointRetired("kpt_001", "A reason in words.")], "secret-session", "human")
    return made


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    """Return a running server of the page of that project."""
    process = subprocess.Popen(SERVE, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield Served(process, json.loads(process.stdout.readline())["address"])
    process.kill()
    process.communicate()


def test_scores_lie_under_the_axis_with_the_values_of_the_command(browser: Browser, tmp_path: Path) -> None:
    """Each score of the latest day is in a chart and in a table, as `score` prints it."""
    (tmp_path / ".claude").mkdir()
    record_example(tmp_path)
    tab = Tab(browser, write_page(tmp_path))
    tab.open("tab=scores")
    answer = json.loads(run(Project(tmp_path), "score", "--json").out)
    rows = tab.page.locator("#charts tbody tr").evaluate_all(CELLS)
    values = {float(row[1]) for row in rows if row[1] != "no data"}
    assert {*map(float, answer["component_scores"].values())} <= {float(round(value)) for value in values}
    assert {answer["date"]} == {row[2] for row in rows if row[2]}
    charts = tab.page.locator("#charts svg.chart")
    assert 3 == charts.count()
    box = charts.first.bounding_box()
    assert box is not None
    charts.first.click(position={"x": 20, "y": box["height"] / 2})
    # The example is of a day long before its events were recorded.
    tab.at(0)
    tab.page.context.close()


CELLS = "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"


def test_a_served_page_follows_its_ledger_and_says_when_the_server_ends(
    browser: Browser, folder: Path, served: Served
) -> None:
    """The address loses its token; a new event appears without a hand; after the server's end the page says so."""
    page = browser.new_context().new_page()
    noise: list[str] = []
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.goto(served.address)
    page.locator('body[data-event="4"]').wait_for(state="attached")
    assert served.address.partition("?")[2] not in page.url
    run(Project(folder), "add", "A later text.")
    page.locator("#entries", has_text="A later text.").wait_for()
    served.process.kill()
    page.locator("#warning", has_text="The server of this page has ended").wait_for()
    assert [] == noise
    page.context.close()


def test_a_text_that_is_redacted_leaves_a_served_page(browser: Browser, folder: Path, served: Served) -> None:
    """After a redaction the page warns and shows the text no longer, also while a dialog is open."""
    page = browser.new_context().new_page()
    page.goto(served.address)
    page.locator('body[data-event="4"]').wait_for(state="attached")
    page.keyboard.press("1")
    page.keyboard.press("g")
    words = ("--text", "A text of an entry.", "--reason", "a name", "--yes", "--expect", "1")
    assert 0 == run(Project(folder), "redact", *words).code
    page.locator("#warning", has_text="the texts of 1 event are redacted").wait_for()
    page.locator('body[data-event="5"]').wait_for(state="attached")
    assert "A text of an entry" not in page.content()
    page.context.close()
