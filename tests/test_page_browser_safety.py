"""The page in a browser: hostile texts are shown as texts, nothing leaves the page, and everybody can use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.browser import Tab, append, chromium, opened, write_page
from helpers.injections import injected
from helpers.repository import ROOT
from tallybook.ledger.events import PlaybookUpdated, PointAdded, PointCited, PointRated, PointRetired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

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
def browser() -> Iterator[Browser]:
    """Return Chromium."""
    with chromium() as running:
        yield running


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, file: Path, scheme: Any) -> None:
    """Roles, names, landmarks, focus and contrast hold in every view and in both colour schemes."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed, which checks accessibility; .ci/run installs it with npm")
    tab = Tab(browser, file, color_scheme=scheme)
    tab.page.evaluate(AXE.read_text(encoding="utf-8"))
    for view in TABS:
        tab.page.evaluate("words => { location.hash = words; }", f"tab={view}&entry=%3Cmarks%3E&session=plain")
        tab.page.locator(f"body[data-tab={view}]").wait_for(state="attached")
        found = tab.page.evaluate("axe.run()")["violations"]
        rows = [(rule["id"], [node["html"][:150] for node in rule["nodes"][:3]]) for rule in found]
        assert [] == rows, view
    tab.page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
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


def test_a_screen_reader_hears_what_changed(tab: Tab) -> None:
    """The page has landmarks, and a live region says each moment and its change once the reader rests."""
    tab.open("")
    assert 1 == tab.page.locator("main").count()
    assert {"Film", "Events"} <= {*tab.page.locator("section").evaluate_all(LABELS)}
    tab.page.keyboard.press("k")
    tab.page.locator("#live[aria-live=polite]", has_text="<script> harmful 0 → 1").wait_for(state="attached")


LABELS = """sections => sections.map((one) => one.getAttribute("aria-label")
    ?? document.getElementById(one.getAttribute("aria-labelledby")).textContent)"""


def test_nothing_moves_by_itself_for_those_who_ask_for_less_motion(browser: Browser, file: Path) -> None:
    """With reduced motion asked for, no element has a transition or an animation."""
    tab = Tab(browser, file, reduced_motion="reduce")
    moving = """() => [...document.querySelectorAll("*")].map((one) => getComputedStyle(one))
        .filter((style) => style.transitionDuration !== "0s" || style.animationName !== "none").length"""
    assert 0 == tab.page.evaluate(moving)
    tab.page.context.close()


def test_the_time_zone_is_named_next_to_the_times(browser: Browser, file: Path) -> None:
    """Times are those of the reader's zone, which is named."""
    tab = Tab(browser, file, timezone_id="Asia/Tokyo")
    assert "Asia/Tokyo" in tab.text("#moment")
    assert "Asia/Tokyo" in tab.text("#made")
    tab.page.context.close()
