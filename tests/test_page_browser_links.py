"""The page in a browser: keys, links, search, and what can be copied and saved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest

from helpers.browser import Tab, append, chromium, opened, write_page
from helpers.injections import injected
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import (
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointPinned,
    PointRated,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

UPDATE = PlaybookUpdated(0, 1, 0)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """Return a page of 14 events in 9 moments, of which the last undoes the pin before it."""
    folder = tmp_path_factory.mktemp("page") / "project"
    log = opened(folder)
    append(log, [PointAdded("kpt_001", "Read the error first."), PointAdded("kpt_002", "=1+1"), UPDATE])
    append(log, [injected(("kpt_001",), 0)], "s2", "hook")
    append(log, [PointCited("kpt_001", "message")], "s2", "hook")
    for session in ("s2", "s3", "s4"):
        append(log, [PointRated("kpt_001", "harmful"), UPDATE], session)
    append(log, [PointPinned("kpt_002", "")], "s5", "human")
    *_, pinned = decode(log.read())
    append(log, [EventsVoided((pinned.records[0].id,), None, "")], "s5", "human")
    with chromium() as browser:
        yield Tab(browser, write_page(folder), permissions=["clipboard-read", "clipboard-write"])


def fragment(tab: Tab) -> dict[str, str]:
    """Return what the address says, once the page wrote it there."""
    tab.page.wait_for_timeout(300)
    return {key: values[0] for key, values in parse_qs(tab.page.url.partition("#")[2]).items()}


def test_keys_move_through_moments(tab: Tab) -> None:
    """Home, j, k and End go to the moments that they name."""
    tab.open("event=6")
    for key, event in [("k", 5), ("k", 4), ("j", 5), ("Home", 0), ("k", 0), ("j", 1), ("j", 4), ("End", 14), ("j", 14)]:
        tab.page.keyboard.press(key)
        tab.at(event)


def test_keys_move_through_the_events_of_the_selected_entry(tab: Tab) -> None:
    """With an entry selected, p and n go from one of its events to the next, the update that pruned it included."""
    tab.open("event=14&entry=kpt_001")
    for key, event in [("p", 12), ("p", 10), ("p", 8), ("p", 6), ("p", 5), ("p", 4), ("p", 4), ("n", 5), ("n", 6)]:
        tab.page.keyboard.press(key)
        tab.at(event, entry="kpt_001")


def test_every_state_has_a_link_that_opens_it_again(tab: Tab) -> None:
    """Moment, entry, view, policy, comparison and filters are in the fragment, and a new page opens at them."""
    link = "event=12&entry=kpt_001&tab=former&since=4&policy=--policy+final&q=kpt_001&kind=point.rated"
    tab.open(link)
    tab.page.reload()
    tab.at(12, entry="kpt_001", tab="former", policy="--policy final")
    tab.page.keyboard.press("k")
    expected = {key: values[0] for key, values in parse_qs(link).items()}
    assert expected | {"event": "10"} == fragment(tab)
    assert "kpt_001" == tab.page.input_value("#query")
    assert "3 of 14 events match" in tab.text("#events-note")


def test_a_changed_fragment_moves_the_page_without_loading_it_anew(tab: Tab) -> None:
    """An address that somebody edits, and the history of the browser, change what is shown; nonsense shows the end."""
    tab.open("event=4")
    for words, event in [("event=10", 10), ("event=7", 6), ("event=x&tab=nothing&policy=none&entry=who", 14), ("", 14)]:
        tab.page.evaluate("words => { location.hash = words; }", words)
        tab.at(event)
    tab.at(14, tab="playbook", policy="")


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


def test_the_story_of_an_entry_has_its_events_one_click_away(tab: Tab) -> None:
    """The panel has the text, the counts and the events of the selected entry; a click goes to one of them."""
    tab.open("event=14&entry=kpt_001")
    assert "Read the error first." in tab.text("#why")
    assert "pruned" in tab.text("#why .facts")
    tab.page.click('#why [aria-label="Go to event 7"]')
    tab.at(8)
    assert "kept" in tab.text("#why .facts")


def test_a_session_shows_what_it_was_given_cited_and_changed(tab: Tab) -> None:
    """A session has its influence, its events only, and the command that undoes it."""
    tab.open("tab=sessions&session=s2")
    facts = tab.text("#session .facts")
    assert ["kpt_001"] * 4 == [line for line in facts.splitlines() if line.startswith("kpt")]
    assert "tallybook undo --of=s2" in tab.text("#session")
    assert "4 of 14 events match" in tab.text("#events-note")


@pytest.mark.parametrize(
    ("link", "command"),
    [
        ("event=10", "tallybook show --at 10"),
        ("event=10&since=4", "tallybook diff 4 10"),
        ("event=10&tab=former", "tallybook show --gone --at 10"),
        ("event=10&tab=lives&entry=kpt_001", "tallybook why --at 10 kpt_001"),
        ("event=10&policy=--policy+final", "tallybook what-if --policy final --at 10"),
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
    with tab.page.expect_download() as download:
        tab.page.click("#save-json")
    answer = json.loads(download.value.path().read_bytes())
    assert (4, "own", "playbook") == (answer["event"], answer["policy"], answer["view"])
