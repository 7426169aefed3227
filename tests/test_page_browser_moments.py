"""The page in a browser: what a moment says that it did, and the commands that undo it."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

import attrs
import pytest

from helpers.browser import Tab, chromium, write_page
from helpers.page_example import write_example
from helpers.real_command import run
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import EventsVoided, PointMerged, PointRated, PointRetired
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from tallybook.ledger.records import EventRecord


@attrs.frozen
class Example:
    """The page of the invented project, and its history."""

    browser: Browser
    tab: Tab
    folder: Path
    records: list[EventRecord]
    lasts: list[int]

    def end_of(self, event: int) -> int:
        """Return the last event of the moment that has an event."""
        return next(last for last in self.lasts if last >= event)

    def first(self, kind: type) -> EventRecord:
        """Return the first event of a kind."""
        return next(record for record in self.records if isinstance(record.event, kind))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    """Return the page of the invented project."""
    folder = tmp_path_factory.mktemp("page") / "parser"
    batches = list(decode(write_example(folder).read()))
    with chromium() as browser:
        tab = Tab(browser, write_page(folder))
        records = [record for batch in batches for record in batch.records]
        yield Example(browser, tab, folder, records, [batch.last for batch in batches])


def undo_commands(example: Example, event: int) -> list[str]:
    """Return the commands that a moment offers."""
    example.tab.open(f"event={event}")
    return [*example.tab.page.locator("#change .copy code").all_inner_texts()]


def test_the_command_that_a_moment_offers_undoes_it(example: Example, tmp_path: Path) -> None:
    """A moment whose batch ends with an update has one command, and the undo of that command is of all its events."""
    retired, undo = example.first(PointRetired).seq, example.first(EventsVoided)
    assert [f"tallybook undo {retired}"] == undo_commands(example, retired)
    # A moment that is undone already is brought back by the number of that undo, as is the undo's own moment.
    for event in (undo.seq - 1, undo.seq):
        assert [f"tallybook undo {undo.seq}"] == undo_commands(example, event)
    rated = example.end_of(example.first(PointRated).seq)
    (command,) = undo_commands(example, rated)
    copy = tmp_path / "copy"
    shutil.copytree(example.folder, copy)
    done = run(Project(copy), *shlex.split(command)[1:])
    assert 0 == done.code
    size = rated - max(last for last in [0, *example.lasts] if last < rated)
    assert size == len([line for line in done.out.splitlines() if line.startswith("undone: ")])


def test_a_moment_that_cannot_be_undone_offers_no_command(example: Example) -> None:
    """An injection, a citation and the opening of the ledger have no command, because `undo` refuses them."""
    kinds = {record.seq: type(record.event).__name__ for record in example.records}
    for event in (1, example.lasts[3]):
        assert kinds[event] in {"LedgerOpened", "PointCited", "PlaybookInjected"}
        assert 0 != run(Project(example.folder), "undo", str(event)).code
        assert [] == undo_commands(example, event)


def test_every_session_has_a_command_that_undo_takes(example: Example, tmp_path: Path) -> None:
    """A session with something to undo has the command; that of an undone session brings it back."""
    copy = tmp_path / "copy"
    shutil.copytree(example.folder, copy)
    assert 0 == run(Project(copy), "undo", "--of=session-01").code
    tab = Tab(example.browser, write_page(copy))
    last = example.lasts[-1] + 1
    for session, command in [("session-01", f"undo {last}"), ("session-02", "undo --of=session-02")]:
        tab.open(f"tab=sessions&session={session}")
        assert f"tallybook {command}" == tab.page.locator("#session .copy code").first.inner_text()
        assert 0 == run(Project(copy), *shlex.split(command), "--reason", "a test").code
    tab.page.context.close()


def test_an_undo_says_what_it_undid(example: Example) -> None:
    """The undone events are named with the undo, and one click goes to them."""
    undo = example.first(EventsVoided)
    example.tab.open(f"event={undo.seq}")
    assert isinstance(undo.event, EventsVoided)
    size = len(undo.event.ids)
    words = f"undid {size} events: {undo.seq - size} to {undo.seq - 1}"
    assert words in example.tab.text("#change")
    example.tab.page.click(f'#change [aria-label="Go to event {undo.seq - size}"]')
    example.tab.at(undo.seq - 1)


def test_a_rating_without_effect_says_so(example: Example) -> None:
    """A rating of an entry that left the playbook changed nothing, which the list and the moment say."""
    rated = [one.seq for one in example.records if isinstance(one.event, PointRated) and one.event.name == "kpt_004"]
    example.tab.open(f"event={example.end_of(rated[-1])}")
    assert "kpt_004 rated harmful, no effect" in example.tab.text("#change")
    assert "kpt_004 rated harmful, no effect" in example.tab.text("#event-list .now:has-text('kpt_004')")


def test_an_entry_that_was_merged_says_into_which(example: Example) -> None:
    """Among the events of a merged entry, the merge names the entry that took it in."""
    merge = example.first(PointMerged)
    example.tab.open(f"event={merge.seq}&entry=kpt_017")
    assert "merged into kpt_002: kpt_002 took in another entry" in example.tab.text("#why [aria-current=step]")


def test_before_the_first_event_the_list_begins_and_nothing_is_compared(example: Example) -> None:
    """At the beginning the first event is in sight, and there is no moment to compare with."""
    example.tab.open("event=0")
    assert "1" == example.tab.page.locator("#event-list [data-index] .number").first.inner_text()
    assert example.tab.page.locator("#compare").is_disabled()
    example.tab.page.keyboard.press("c")
    example.tab.page.locator("#live", has_text="Go to a moment first.").wait_for(state="attached")


def test_on_paper_the_events_next_to_the_moment_are_listed_without_controls(example: Example) -> None:
    """Paper has every entry, the events before and after the moment, the whole width, and nothing to press."""
    middle = example.lasts[len(example.lasts) // 2]
    tab = Tab(example.browser, write_page(example.folder))
    tab.open(f"event={middle}&entry=kpt_004")
    tab.page.emulate_media(media="print")
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.settle()
    numbers = [int(text) for text in tab.page.locator("#event-list [data-index] .number").all_inner_texts()]
    assert [*range(middle - 15, middle + 16)] == numbers
    widths = tab.page.evaluate("['events', 'main', 'why'].map((id) => document.getElementById(id).offsetWidth)")
    assert {tab.page.evaluate("innerWidth")} == {*widths}
    assert 0 == tab.page.locator("#change .copy button:visible, #why .copy button:visible, #slider:visible").count()
    tab.page.evaluate("dispatchEvent(new Event('afterprint'))")
    tab.page.emulate_media(media="screen")
    tab.settle()
    assert str(middle) in tab.page.locator("#event-list [aria-selected=true] .number").all_inner_texts()
    tab.page.context.close()
