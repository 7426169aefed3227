"""The page in a browser: it shows what the commands show, keys and links lead there, and no text harms it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
import json
from pathlib import Path
from random import Random
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs

import pytest

from helpers.browser import Tab, append, open_dated_ledger, write_example, write_history, write_page
from helpers.commands import ROOT, run
from helpers.events import make_injection
from helpers.git_repositories import make_repository
from tallybook.ledger.codec import decode
from tallybook.ledger.events import (
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointPinned,
    PointRated,
    PointRetired,
)
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.projections.surfaces.history import moments, reading
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A long history


@pytest.fixture(scope="module")
def long(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tab, Project]:
    """Return the page of a long history, and its project."""
    folder = tmp_path_factory.mktemp("page") / "project"
    write_history(folder, 600)
    tab = Tab(browser, write_page(folder))
    # The list has the rows in sight alone.
    tab.page.set_viewport_size({"width": 1440, "height": 2400})
    return tab, Project(folder)


def save_page(tab: Tab, event: int) -> list[dict[str, Any]]:
    """Return the rows of the playbook that the page saves as JSON at an event."""
    tab.open(f"event={event}")
    tab.at(event)
    with tab.page.expect_download() as download:
        tab.page.click("#save-json")
    answer = json.loads(download.value.path().read_bytes())
    assert (event, "playbook") == (answer["event"], answer["view"])
    rows: list[dict[str, Any]] = answer["rows"]
    return rows


def test_a_sample_of_moments_shows_what_show_at_prints(long: tuple[Tab, Project]) -> None:
    """Names, texts, counts and order at moments equal those of `show --at`."""
    tab, project = long
    lasts = [batch.last for batch in reading.batches(project)]
    for event in Random(3).sample(lasts, 4):  # noqa: S311 - the same moments in every run
        answer = json.loads(run(project, "show", "--at", str(event), "--json").out)
        keys = ("name", "text", "helpful", "harmful")
        expected = [{key: point[key] for key in keys} for point in answer["key_points"]]
        assert expected == [{key: row[key] for key in keys} for row in save_page(tab, event)]


# Keys, links, search, and what can be copied and saved

UPDATE = PlaybookUpdated(0, 1, 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project of 14 events in 9 moments, of which the last undoes the pin before it."""
    folder = tmp_path_factory.mktemp("page") / "project"
    log = open_dated_ledger(folder)
    append(log, [PointAdded("kpt_001", "Read the error first."), PointAdded("kpt_002", "=1+1"), UPDATE])
    append(log, [make_injection(("kpt_001",), 0)], "s2", "hook")
    append(log, [PointCited("kpt_001", "message")], "s2", "hook")
    for session in ("s2", "s3", "s4-a"):
        append(log, [PointRated("kpt_001", "harmful"), UPDATE], session)
    append(log, [PointPinned("kpt_002", "")], "s5", "human")
    *_, pinned = decode(log.read())
    append(log, [EventsVoided((pinned.records[0].id,), None, "")], "s5", "human")
    return Project(folder)


@pytest.fixture(scope="module")
def tab(browser: Browser, place: Project) -> Tab:
    """Return the page of that project."""
    return Tab(browser, write_page(place.root), permissions=["clipboard-read", "clipboard-write"], timezone_id="UTC")


def go(tab: Tab, words: str) -> None:
    """Type a moment into the dialog of g."""
    # A dialog that is closed gives the focus back in the next frame.
    tab.settle()
    tab.page.keyboard.press("g")
    tab.page.fill("#go-where", words)
    tab.page.keyboard.press("Enter")


def test_g_goes_where_at_goes(tab: Tab, place: Project) -> None:
    """Numbers, ~N, times, dates, ages and sessions lead to the moment that --at finds."""
    batches = list(reading.batches(place))
    tab.open("event=4")
    second = datetime.fromisoformat(batches[1].at)
    age = int((datetime.now(UTC) - second).total_seconds()) - 30
    sessions = ("session:s2", "session:s3", "session:s3+", "session:s4", "session:s4+")
    for when in ("7", "0", "~0", "~2", "2001-01-01", f"{second:%F %H:%M:59}", f"{age}s", "1s", "9999w", *sessions):
        go(tab, when)
        seq = moments.find(place, when).seq
        tab.at(max((batch.last for batch in batches if batch.last <= seq), default=0))
    # The address follows when the keys rest.
    tab.page.wait_for_timeout(300)


def test_a_moment_that_the_page_lacks_has_a_command_that_shows_it(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dialog copies a command for a commit, an event before the page and a session; the shell runs it as it is."""
    here = make_repository(tmp_path)
    append(JsonlLog(here.ledger), [PointRated("kpt_001", "helpful")], "one two")
    monkeypatch.setattr("tallybook.projections.surfaces.page.document.MAX_MOMENTS", 1)
    lacking = Tab(browser, write_page(here.root, with_texts=False), permissions=["clipboard-read", "clipboard-write"])
    for words, command in {
        "2": "tallybook show --at 2",
        "git:main": "tallybook page --at git:main",
        "git:HEAD^{/one|one two}": "tallybook page --at 'git:HEAD^{/one|one two}'",
        "session:one two+": "tallybook page --at 'session:one two+'",
    }.items():
        go(lacking, words)
        lacking.page.click("#go-command button")
        assert command == lacking.page.evaluate("navigator.clipboard.readText()")
        script = f'tallybook() {{ {shlex.quote(sys.executable)} -m tallybook "$@"; }}\n{command}'
        subprocess.run(["sh", "-c", script], cwd=here.root, check=True)
        lacking.page.keyboard.press("Escape")
    lacking.page.context.close()


def fragment(tab: Tab) -> dict[str, str]:
    """Return what the address says, once the page wrote it there."""
    tab.page.wait_for_timeout(300)
    return {key: values[0] for key, values in parse_qs(tab.page.url.partition("#")[2]).items()}


def test_every_state_has_a_link_that_opens_it_again(tab: Tab) -> None:
    """Moment, entry, view, comparison and filters are in the fragment, and a new page opens at them."""
    link = "event=12&entry=kpt_001&tab=former&since=4&q=kpt_001&kind=point.rated"
    tab.open(link)
    tab.page.reload()
    tab.at(12, entry="kpt_001", tab="former")
    tab.page.keyboard.press("k")
    expected = {key: values[0] for key, values in parse_qs(link).items()}
    assert expected | {"event": "10"} == fragment(tab)
    assert "kpt_001" == tab.page.input_value("#query")
    assert "3 of 14 events match" in tab.text("#events-note")


def test_a_moment_says_what_its_batch_and_its_update_did(tab: Tab) -> None:
    """A batch is one step with its parts, and the entry that its update pruned is named and struck out."""
    tab.open("event=12")
    assert "One batch: 2 events" in tab.text("#change")
    assert "pruned, harmful 2 → 3" in tab.text("#change")
    assert ["kpt_001"] == tab.page.locator("#entries .left .name").all_inner_texts()
    tab.open("event=14")
    assert "undone by 14" in tab.text("#event-list .undone")
    tab.open("event=13")
    assert "until 14" in tab.text("#event-list")


def test_one_search_finds_names_texts_sessions_raters_and_kinds(tab: Tab) -> None:
    """Words narrow the events and the entries; each may be anywhere, and all must be there."""
    for words, events, entries in [
        ("kpt_002", 3, 1),
        ("error", 6, 1),
        ("s3", 2, 0),
        ("hook", 2, 0),
        ("rated harmful", 3, 0),
        ("s4 update", 1, 0),
        ("nothing", 0, 0),
    ]:
        tab.open("event=10")
        tab.page.fill("#query", words)
        tab.page.locator("#events-note", has_text=f"{events} of 14 events match").wait_for()
        assert entries == tab.page.locator("#entries [role=option]").count(), words


@pytest.mark.parametrize(
    ("link", "command"),
    [
        ("event=10", "tallybook show --at 10"),
        ("event=10&since=4", "tallybook diff 4 10"),
        ("event=10&tab=former", "tallybook show --gone --at 10"),
        ("event=10&tab=lives&entry=kpt_001", "tallybook why --at 10 kpt_001"),
        ("event=10&tab=sessions", "tallybook log --since 8 --until 10"),
        ("event=10&tab=sessions&session=s3", "tallybook log --session=s3"),
    ],
)
def test_each_view_has_the_command_that_prints_the_same(tab: Tab, link: str, command: str) -> None:
    """The command line of a view is shown, and its button copies it."""
    tab.open(link)
    assert command == tab.text("#command")
    tab.page.click("#copy-command")
    assert command == tab.page.evaluate("navigator.clipboard.readText()")


def test_cells_that_a_spreadsheet_would_run_are_escaped(tab: Tab) -> None:
    """CSV has what is shown; a cell that begins as a formula does begins with an apostrophe."""
    tab.open("event=4")
    with tab.page.expect_download() as download:
        tab.page.click("#save-csv")
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert "name,status,helpful,harmful,pinned,text" == lines[0]
    assert "kpt_002,kept,0,0,false,'=1+1" == lines[2]


# What a moment says that it did, and the commands that undo it


def test_the_command_that_a_moment_offers_undoes_it(browser: Browser, tmp_path: Path) -> None:
    """A moment whose batch ends with an update has one command, and the undo of that command is of all its events."""
    folder = tmp_path / "parser"
    batches = list(decode(write_example(folder).read()))
    example = Tab(browser, write_page(folder))

    def offered(event: int) -> list[str]:
        example.open(f"event={event}")
        return [*example.page.locator("#change .copy code").all_inner_texts()]

    def first(kind: type) -> Batch:
        return next(batch for batch in batches if kind in map(type, batch.events))

    retired, undo, rated = first(PointRetired).last, first(EventsVoided).last, first(PointRated)
    assert [f"tallybook undo {retired}"] == offered(retired)
    # A moment that is undone already is brought back by the number of that undo, as is the undo's own moment.
    for event in (undo - 1, undo):
        assert [f"tallybook undo {undo}"] == offered(event)
    (command,) = offered(rated.last)
    done = run(Project(folder), *shlex.split(command)[1:])
    assert 0 == done.code
    assert len(rated.events) == len([line for line in done.out.splitlines() if line.startswith("undone: ")])
    example.page.context.close()


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


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a playbook whose every text would do harm as markup."""
    folder = tmp_path_factory.mktemp("page") / "project<b>"
    log = open_dated_ledger(folder)
    append(log, [*(PointAdded(f"<{name}>", text) for name, text in HOSTILE.items()), UPDATE], SESSION)
    append(log, [make_injection(("<markup>",), 0)], SESSION, "<i>hook</i>")
    append(log, [PointCited("<markup>", "<u>tool</u>")], CONTROL, "<i>hook</i>")
    append(log, [PointRated("<script>", "harmful"), PointRated("<marks>", "helpful"), UPDATE], CONTROL)
    append(log, [PointRetired("<link>", "<s>reason</s>")], "plain", "human")
    return write_page(folder, with_quotes=True)


@pytest.fixture(scope="module")
def hostile_tab(browser: Browser, file: Path) -> Tab:
    """Return the hostile page, open."""
    return Tab(browser, file)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_shown_as_text(hostile_tab: Tab, name: str) -> None:
    """Markup, scripts, marks of direction, line ends and 100 kB are inserted as text, character by character."""
    hostile_tab.page.goto("about:blank")
    hostile_tab.open(f"entry=%3C{name}%3E")
    shown = hostile_tab.page.locator("#why .quote").evaluate("element => element.textContent")
    assert HOSTILE[name] == shown
    assert f"Why <{name}>" == hostile_tab.page.locator("#why-title").evaluate("element => element.textContent")


@pytest.mark.parametrize("view", TABS)
def test_no_view_makes_an_element_of_a_text(hostile_tab: Tab, view: str) -> None:
    """No view of the hostile page has an image, a script or another element that its texts name."""
    hostile_tab.open(f"tab={view}&q=%3Cimg src=x onerror=alert(1)%3E&rater=%3Ci%3Ehook&entry=%3Cmarkup%3E")
    hostile_tab.open(f"tab={view}&entry=%3Cmarkup%3E")
    assert 0 == hostile_tab.page.locator("body :is(img, b:not(#moment b), i, s, u, iframe, a:not(.skip))").count()
    assert 0 == hostile_tab.page.locator("[onerror], [style*=expression]").count()


def test_nothing_leaves_the_page_and_the_console_stays_empty(hostile_tab: Tab) -> None:
    """No hostile text caused a request, a message, an error or a dialog."""
    assert [] == [line for line in hostile_tab.noise if not line.startswith((hostile_tab.address, "about:blank"))]


def test_a_copied_command_quotes_its_value_and_refuses_control_characters(hostile_tab: Tab) -> None:
    """A session id that a shell would run is quoted; with control characters there is no command but a reason."""
    hostile_tab.open("tab=sessions")
    hostile_tab.page.locator("#entries [role=option]", has_text="$(touch").click()
    hostile_tab.settle()
    commands = hostile_tab.page.locator("#session .copy code")
    quoted = "'$(touch /tmp/never); `id` '\"'\"'\"<b>'"
    assert f"tallybook undo --of={quoted}" in commands.all_inner_texts()
    hostile_tab.page.locator("#entries [role=option]", has_text="bell").click()
    hostile_tab.page.locator("#session", has_text="no command, because").wait_for()
    assert 0 == commands.count()


@pytest.mark.parametrize(("scheme", "rules"), [("light", ""), ("dark", "{runOnly: ['color-contrast']}")])
def test_axe_finds_nothing(browser: Browser, file: Path, scheme: Any, rules: str) -> None:
    """Roles, names, landmarks, focus and contrast hold in every view, and contrast in both colour schemes."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed, which checks accessibility; .ci/run installs it with npm")
    hostile_tab = Tab(browser, file, color_scheme=scheme)
    hostile_tab.page.evaluate(AXE.read_text(encoding="utf-8"))
    for view in TABS:
        hostile_tab.page.evaluate("words => { location.hash = words; }", f"tab={view}&entry=%3Cmarks%3E&session=plain")
        hostile_tab.page.locator(f"body[data-tab={view}]").wait_for(state="attached")
        found = hostile_tab.page.evaluate(f"axe.run({rules})")["violations"]
        rows = [(rule["id"], [node["html"][:150] for node in rule["nodes"][:3]]) for rule in found]
        assert [] == rows, view
    hostile_tab.page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (768, "dark"), (2560, "light")])
def test_every_width_shows_everything_without_scrolling_sideways(
    browser: Browser, file: Path, width: int, scheme: Any
) -> None:
    """From 360 to 2,560 pixels nothing is wider than the window, also on paper."""
    hostile_tab = Tab(browser, file, color_scheme=scheme)
    hostile_tab.page.set_viewport_size({"width": width, "height": 800})
    for view in TABS:
        hostile_tab.page.evaluate("words => { location.hash = words; }", f"tab={view}&entry=%3Clong%3E&session=plain")
        hostile_tab.page.locator(f"body[data-tab={view}]").wait_for(state="attached")
        assert width == hostile_tab.page.evaluate("document.documentElement.scrollWidth"), view
    hostile_tab.page.emulate_media(media="print")
    assert width == hostile_tab.page.evaluate("document.documentElement.scrollWidth")
    hostile_tab.page.context.close()


# Names, focus and keys

KEYS: Final[dict[str, tuple[str, str, str]]] = {
    "j": ("event=5", "j", "body[data-event='6']"),
    "k": ("event=6", "k", "body[data-event='5']"),
    "n": ("event=5&entry=kpt_001", "n", "body[data-event='6']"),
    "p": ("event=6&entry=kpt_001", "p", "body[data-event='5']"),
    "g": ("", "g", "#go-dialog[open] #go-where:focus"),
    "space": ("event=5", " ", "#play:has-text('Pause')"),
    "Home": ("event=6", "Home", "body[data-event='0']"),
    "End": ("event=6", "End", "body[data-event='14']"),
    "/": ("", "/", "#query:focus"),
    "c": ("event=6", "c", "#compare[aria-pressed=true]:has-text('Compared with 6')"),
    "1 … 5": ("", "4", "body[data-tab=sessions]"),
    "Escape": ("q=hook&kind=point.cited", "Escape", "#events-note:has-text('14 events')"),
    "?": ("", "?", "#help-dialog[open] #help-title"),
}
"""A key as the help names it → the fragment before it, what is pressed, and what is there then."""


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


def nodes(tab: Tab) -> list[dict[str, Any]]:
    """Return what a screen reader is given: role, name and properties of each node."""
    session = tab.page.context.new_cdp_session(tab.page)
    tree: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node for node in tree if not node["ignored"]]


@pytest.mark.parametrize("view", TABS)
def test_everything_that_takes_the_focus_has_a_name(tab: Tab, view: str) -> None:
    """In each view, with an entry and a session chosen, the browser computes a name for every control."""
    tab.open(f"tab={view}&entry=kpt_001&session=s2&since=3")
    focusable = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes(tab)
        if any(field["name"] == "focusable" and field["value"]["value"] for field in node.get("properties", ()))
        and node["role"]["value"] != "RootWebArea"
    ]
    assert len(focusable) > 20
    assert [] == [row for row in focusable if not row[1]]
    ids = tab.page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))


REACHABLE: Final = """() => [...document.querySelectorAll("a, button, input, select, [tabindex]")]
  .filter((element) => element.tabIndex >= 0 && !element.disabled && element.checkVisibility()).length"""
VISIT: Final = """() => {
  const { activeElement: element } = document, style = getComputedStyle(element);
  const again = element.dataset.visited !== undefined;
  element.dataset.visited = "";
  return [element === document.body, again, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
}"""


@pytest.mark.parametrize("view", TABS)
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


# Scores, texts, and pages that a server keeps up to date

SERVE = [sys.executable, "-m", "tallybook", "page", "--serve", "--json"]


class BrowserPageServer(NamedTuple):
    """A server of a page, and its address."""

    process: subprocess.Popen[str]
    address: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project with a retired entry and a reason."""
    made = tmp_path / "project"
    log = open_dated_ledger(made)
    append(log, [PointAdded("kpt_001", "A text of an entry."), PlaybookUpdated(1, 0, 0)], "secret-session")
    append(log, [PointRetired("kpt_001", "A reason in words.")], "secret-session", "human")
    return made


@pytest.fixture
def served(folder: Path) -> Iterator[BrowserPageServer]:
    """Return a running server of the page of that project."""
    process = subprocess.Popen(SERVE, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield BrowserPageServer(process, json.loads(process.stdout.readline())["address"])
    process.kill()
    process.communicate()


def test_a_served_page_follows_its_ledger_and_says_when_the_server_ends(
    browser: Browser, folder: Path, served: BrowserPageServer
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


def test_a_text_that_is_redacted_leaves_a_served_page(
    browser: Browser, folder: Path, served: BrowserPageServer
) -> None:
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
