"""The page in a browser: what a person sees on opening it, and on a narrow screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.browser import Tab, chromium, write_page
from helpers.page_example import GUIDANCE, write_example
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import PlaybookUpdated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.records import Batch


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> list[Batch]:
    """Return the history of the invented project."""
    return list(decode(write_example(tmp_path_factory.mktemp("other") / "parser").read()))


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """Return the page of the invented project."""
    folder = tmp_path_factory.mktemp("page") / "parser"
    write_example(folder)
    with chromium() as browser:
        yield Tab(browser, write_page(folder))


def test_the_entry_that_left_last_is_selected_and_its_story_stands_first(tab: Tab) -> None:
    """On opening, the story of the last former entry is told before its text, and a link keeps it."""
    tab.open("tab=former")
    name = tab.page.locator("#entries .name").first.inner_text()
    assert f"Why {name}" == tab.text("#why h2")
    story, text = tab.page.locator("#why .words").first, tab.page.locator("#why .quote")
    assert "Learned" in story.inner_text()
    assert tab.page.evaluate(
        "([one, other]) => one.compareDocumentPosition(other) & 4", [story.element_handle(), text.element_handle()]
    )
    tag = tab.page.locator("#entries .tag").first.inner_text()
    assert (True, False) == ("pruned: 3 harmful, " in tag, "event" in tag)


def test_no_command_of_a_moment_is_cut(tab: Tab, batches: list[Batch]) -> None:
    """The box of every moment is as high as what is in it."""
    for batch in batches[::7]:
        tab.open(f"event={batch.last}")
        assert tab.page.evaluate(
            "(({scrollHeight: all, clientHeight: seen}) => all <= seen)(document.getElementById('change'))"
        )


def test_a_batch_says_first_what_it_changed(tab: Tab, batches: list[Batch]) -> None:
    """The changed entries stand before the events of a moment."""
    batch = next(batch for batch in batches if PlaybookUpdated in map(type, batch.events))
    tab.open(f"event={batch.last}")
    lists = tab.page.locator("#change .steps").evaluate_all(
        "lists => lists.map((one) => one.getAttribute('aria-label'))"
    )
    assert ["Changed entries", "Events of this moment"] == lists


def test_a_life_line_carries_the_beginning_of_the_text(tab: Tab) -> None:
    """A person knows an entry by its words, not by its number."""
    tab.open("tab=lives")
    assert GUIDANCE[-1][:30] in tab.text("#entries")


def test_sessions_fill_the_screen_until_one_is_chosen(tab: Tab) -> None:
    """The list of sessions is as high as that of entries; with a session chosen it leaves room for it."""
    height = "document.getElementById('entries').clientHeight"
    tab.open("")
    entries = tab.page.evaluate(height)
    tab.open("tab=sessions")
    assert entries == tab.page.evaluate(height)
    tab.open("tab=sessions&session=session-01")
    assert entries > tab.page.evaluate(height)


def test_policies_are_named_by_what_they_mean(tab: Tab) -> None:
    """No choice of a policy has a word of the settings alone."""
    tab.open("")
    choices = tab.page.locator("#policy option").all_inner_texts()
    assert [] == [text for text in choices for word in ("floor", "margin", "own policy") if word in text]
    assert "What if: an update prunes it for good from 1 harmful on" in choices


def test_a_tap_on_a_narrow_screen_goes_to_the_story(tab: Tab) -> None:
    """At 400 pixels the story is far below the list, and a tap on an entry brings it into sight."""
    tab.page.set_viewport_size({"width": 400, "height": 860})
    tab.open("")
    assert 0 == tab.page.evaluate("scrollY")
    tab.page.locator("#entries [role=option]").nth(1).click()
    tab.page.wait_for_function("document.getElementById('why').getBoundingClientRect().top < innerHeight / 3")
    box, bar = tab.page.locator("#why h2").bounding_box(), tab.page.locator("#film").bounding_box()
    assert box is not None
    assert bar is not None
    assert box["y"] >= bar["y"] + bar["height"]
    tab.page.set_viewport_size({"width": 1440, "height": 900})
