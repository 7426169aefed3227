"""What people read: tables, stories and lines that hold at 40 columns, without colour and without UTF-8."""

from __future__ import annotations

from io import BytesIO, StringIO, TextIOWrapper
import re
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from ledger.errors import Problem
from projections.surfaces import terminal

if TYPE_CHECKING:
    from collections.abc import Callable

AT = "2026-11-21T20:17:03.123456Z"
BY = {"rater": "reflector", "session": "s1"}
WIDTHS = pytest.mark.parametrize("width", [40, 80])

POINTS: list[dict[str, Any]] = [
    {"name": "kpt_001", "text": "Use type hints " * 8, "helpful": 9, "harmful": 1},
    {"name": "kpt_002", "text": "Prefer pathlib", "helpful": 0, "harmful": 0},
    {"name": "kpt_003", "text": "Mock — everything…", "helpful": 1, "harmful": 3},
]


def rating(seq: int, helpful: int, harmful: int, rating: str = "harmful") -> dict[str, Any]:
    """Return a row of a trail: a rating that counted, with the counters after it."""
    row = {"seq": seq, "at": AT, "kind": "point.rated", "by": BY, "rating": rating}
    return row | {"helpful": helpful, "harmful": harmful}


def ignored(seq: int, reason: str, rating: str = "helpful") -> dict[str, Any]:
    """Return a row of what changed nothing."""
    return {"seq": seq, "at": AT, "kind": "point.rated", "by": BY, "rating": rating, "reason": reason}


LEARNED = {"seq": 2, "at": AT, "kind": "point.added", "by": BY, "rating": None, "helpful": 0, "harmful": 0}
PRUNED: dict[str, Any] = {
    "name": "kpt_003",
    "text": "Mock everything",
    "status": "pruned",
    "helpful": 1,
    "harmful": 3,
    "rule": "harmful >= 3 AND harmful > helpful",
    "decided_by": {"seq": 12, "id": "019a", "at": AT, "by": BY},
    "trail": [
        LEARNED,
        rating(4, 1, 0, "helpful"),
        rating(6, 1, 1),
        rating(8, 1, 2),
        rating(11, 1, 3),
        {**LEARNED, "seq": 12, "kind": "playbook.updated", "helpful": 1, "harmful": 3},
    ],
    "ignored": [ignored(5, "counts nothing", "neutral"), ignored(14, "already pruned"), ignored(16, "already pruned")],
}
KEPT = PRUNED | {"status": "kept", "rule": None, "decided_by": None, "trail": PRUNED["trail"][:5], "ignored": []}
BRIEF = {"seq": 812, "at": AT, "by": BY, "summary": 'learned kpt_004 "Write tests…"'}

CHANGES = [
    ("+", "kpt_004  0 helpful and 0 harmful"),
    ("-", "kpt_003  pruned at event 812"),
    ("", f"Write tests… {'x' * 90}"),
]

SCREENS: dict[str, Callable[[Console], None]] = {
    "playbook": lambda console: terminal.playbook_table(console, POINTS, AT),
    "story": lambda console: terminal.story(console, PRUNED, {"same_text": ["kpt_009"]}),
    "log": lambda console: terminal.log_rows(console, [BRIEF]),
    "changes": lambda console: terminal.changes(console, "From 3", "to 9", CHANGES, "1 gone"),
    "problems": lambda console: terminal.problems(console, [{"line": 3, "seq": 3, "message": "was changed…"}]),
}
screens = pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)


def shown(screen: Callable[[Console], None], width: int = 80, encoding: str = "utf-8") -> str:
    """Return what a screen prints into a pipe of this width and encoding."""
    stream = TextIOWrapper(BytesIO(), encoding=encoding, newline="\n")
    screen(terminal.console_for(stream, width))
    stream.seek(0)
    return stream.read()


def words(text: str) -> str:
    """Return a text with line breaks and stretches of spaces as one space."""
    return " ".join(text.split())


@WIDTHS
@pytest.mark.parametrize("name", ["playbook", "story", "changes"])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    """Tables and stories wrap, at 40 columns too."""
    assert max(map(cell_len, shown(SCREENS[name], width).splitlines())) <= width


@WIDTHS
@screens
def test_a_pipe_gets_no_colour_codes(screen: Callable[[Console], None], width: int) -> None:
    """Nothing that steers a terminal is printed where there is none."""
    assert "\x1b" not in shown(screen, width)


@WIDTHS
@screens
def test_a_terminal_without_utf_8_gets_ascii(screen: Callable[[Console], None], width: int) -> None:
    """Boxes, bars and texts are shown with what the encoding has, and nothing fails."""
    text = shown(screen, width, "ascii")
    assert text.isascii()
    assert text.strip()


@pytest.mark.parametrize("no_color", [True, False])
@pytest.mark.parametrize("name", ["playbook", "story", "changes"])
def test_a_terminal_gets_colour_unless_it_wants_none(name: str, no_color: bool) -> None:
    """Good and bad are green and red on a terminal, and plain with NO_COLOR."""
    stream = StringIO()
    SCREENS[name](Console(file=stream, width=80, force_terminal=True, color_system="standard", no_color=no_color))
    assert no_color == (re.search(r"\x1b\[(\d+;)*3[12]m", stream.getvalue()) is None)


@WIDTHS
def test_the_playbook_shows_every_entry_with_its_counts(width: int) -> None:
    """Each entry has its name, both counts, the whole text, and a bar or the word unrated."""
    text = shown(SCREENS["playbook"], width)
    assert [True] * 3 == [point["name"] in text for point in POINTS]
    assert 24 == sum(text.count(word) for word in ("Use", "type", "hints"))
    assert {"████░", "█░░░░", "unrated"} <= set(text.split())
    assert "3 key points, last updated 2026-11-21 20:17 UTC" in words(text)


@pytest.mark.parametrize(
    ("helpful", "harmful", "bar"),
    [(5, 0, "#####"), (0, 5, "....."), (1000, 1, "####."), (1, 1000, "#...."), (1, 1, "##..."), (0, 0, "unrated")],
)
def test_a_bar_is_full_or_empty_only_if_all_ratings_agree(helpful: int, harmful: int, bar: str) -> None:
    """A single dissenting rating is seen among a thousand."""
    point = {"name": "kpt_001", "text": "x", "helpful": helpful, "harmful": harmful}
    assert bar in shown(lambda console: terminal.playbook_table(console, [point], None), encoding="ascii").split()


def test_an_empty_playbook_says_what_to_do_next() -> None:
    """A person with nothing yet is told the two commands that change that."""
    text = words(shown(lambda console: terminal.playbook_table(console, [], None), 40))
    assert text.startswith("The playbook is empty.")
    assert "`tallybook add TEXT`" in text
    assert "`tallybook import FILE`" in text


def test_an_empty_playbook_of_the_past_is_told_as_past() -> None:
    """At an earlier moment there is nothing to be done."""
    text = shown(lambda console: terminal.playbook_table(console, [], None, at="2025-01-01"))
    assert "The playbook was empty at 2025-01-01.\n" == text


def test_a_playbook_of_the_past_names_its_moment() -> None:
    """The moment is named as the person named it."""
    assert "as of 7" in shown(lambda console: terminal.playbook_table(console, POINTS, None, at=7))


@WIDTHS
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[bold]x[/bold] [link=f]", "[bold]x[/bold] [link=f]"),
        ("[/]", "[/]"),
        (":smile: and :boom:", ":smile: and :boom:"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nkpt_9", r"a\nkpt_9"),
        ("a\rb\tc\x07\x9bd", r"a\rb\tc\x07\x9bd"),
        ("\u202eright to left", r"\u202eright to left"),
        ("\ud800half", r"\ud800half"),
        ("日本語", "日本語"),
    ],
)
def test_a_text_is_shown_literally_and_does_no_harm(text: str, expected: str, width: int) -> None:
    """Markup, emoji names, control characters and turned writing are shown, never obeyed."""
    point = {"name": "kpt_001", "text": text, "helpful": 0, "harmful": 0}
    assert expected in shown(lambda console: terminal.playbook_table(console, [point], None), width)
    assert expected in shown(lambda console: terminal.story(console, KEPT | {"text": text}), width)


@WIDTHS
def test_the_story_of_a_pruned_entry_says_when_by_whom_and_why(width: int) -> None:
    """Learned, rated, pruned by which rule with which counts, and what came after, in a few lines."""
    text = words(shown(SCREENS["story"], width))
    assert [] == [
        sentence
        for sentence in [
            "Learned 2026-11-21 20:17 UTC by reflector in session s1, event 2.",
            "Rated 4 times: 1 helpful, 3 harmful; by reflector (4).",
            "Pruned 2026-11-21 20:17 UTC by reflector in session s1, event 12, by the rule harmful >= 3",
            "AND harmful > helpful, with 1 helpful and 3 harmful.",
            "2 events came after that and changed nothing.",
            "1 event about it changed nothing: counts nothing (1).",
            "The same text came under another name too: kpt_009.",
        ]
        if sentence not in text
    ]


@WIDTHS
def test_the_trail_tells_every_step_in_order(width: int) -> None:
    """The rows follow the sentences by event, what changed nothing among them."""
    lines = shown(SCREENS["story"], width).splitlines()
    firsts = [line.split()[0] for line in lines if "2026-11-21 20:17  " in line]
    assert ["2", "4", "5", "6", "8", "11", "12", "14", "16"] == firsts


def test_a_long_trail_is_cut_to_its_end_and_says_so() -> None:
    """A thousand ratings do not fill the screen."""
    told = KEPT | {"trail": [LEARNED, *(rating(seq, seq - 2, 0, "helpful") for seq in range(3, 1003))]}
    text = shown(lambda console: terminal.story(console, told))
    assert "981 earlier events not shown; --json has them all." in text
    assert terminal.TRAIL_ROWS == text.count("rated helpful")


def test_the_story_of_a_legacy_entry_says_what_the_file_had() -> None:
    """Seeded entries name the shape they had, their counts, and the original."""
    seeded = {**LEARNED, "kind": "point.seeded", "helpful": 3, "by": {"rater": "import"}}
    extras = {"origin": "dict_with_score", "original": '{"text": "x", "score": 3}', "same_text": []}
    text = words(shown(lambda console: terminal.story(console, KEPT | {"trail": [seeded]}, extras)))
    assert (
        "Taken in from a legacy playbook (as dict_with_score) 2026-11-21 20:17 UTC by import, event 2, "
        'with 3 helpful and 0 harmful. That file had it as {"text": "x", "score": 3} It stands'
    ) in text


def test_the_story_of_a_revived_entry_tells_of_its_absence() -> None:
    """A prune that was undone by hand stays part of the story."""
    back = {**LEARNED, "seq": 20, "kind": "point.edited", "helpful": 4, "harmful": 0}
    told = KEPT | {"trail": [*PRUNED["trail"], back]}
    text = words(shown(lambda console: terminal.story(console, told)))
    assert "Pruned at event 12 with 1 helpful and 3 harmful, back at event 20." in text
    assert "It stands in the playbook with" in text


def test_an_entry_removed_by_hand_is_told_as_such() -> None:
    """There is no rule to name."""
    removed = {**PRUNED["trail"][-1], "kind": "point.removed"}
    told = PRUNED | {"status": "retired", "rule": None, "trail": [*PRUNED["trail"][:-1], removed]}
    text = words(shown(lambda console: terminal.story(console, told)))
    assert "Removed by hand 2026-11-21 20:17 UTC by reflector in session s1, event 12, with 1 helpful" in text


MERGED = {**LEARNED, "seq": 12, "kind": "point.merged", "name": "kpt_001", "merged": ["kpt_003"]}


def test_a_merged_entry_is_told_where_it_went() -> None:
    """Its story ends there, and says which later ratings count elsewhere; the other's goes on."""
    late = [
        ignored(14, "counts for kpt_001"),
        ignored(15, "counts for kpt_001"),
        ignored(16, "counts nothing", "neutral"),
    ]
    story = PRUNED | {"status": "merged", "rule": None, "trail": [LEARNED, MERGED], "ignored": late}
    told = words(shown(lambda console: terminal.story(console, story)))
    assert "Merged into kpt_001 2026-11-21 20:17 UTC by reflector in session s1, event 12, with 1 helpful" in told
    assert "2 ratings came after that and count for kpt_001. 1 event came after that and changed nothing." in told
    assert "merged into kpt_001 reflector" in told
    other = words(
        shown(lambda console: terminal.story(console, KEPT | {"name": "kpt_001", "trail": [LEARNED, MERGED]}))
    )
    assert "merged with kpt_003 reflector" in other
    assert "Merged" not in other


@pytest.mark.parametrize("kind", ["reworded", "retired", "restored", "pinned", "unpinned", "noted"])
def test_what_a_hand_decided_is_told_in_a_word(kind: str) -> None:
    """A row of the trail has the verb, not the kind on disk."""
    told = KEPT | {"trail": [LEARNED, {**LEARNED, "seq": 5, "kind": f"point.{kind}"}]}
    text = words(shown(lambda console: terminal.story(console, told)))
    assert f"{kind} reflector" in text
    assert "point." not in text


def test_a_note_says_nothing_of_where_an_entry_is() -> None:
    """An entry that was retired and noted is back only where it is restored."""
    rows = [("retired", 5), ("noted", 6), ("restored", 7)]
    trail = [LEARNED, *({**LEARNED, "seq": seq, "kind": f"point.{kind}"} for kind, seq in rows)]
    text = words(shown(lambda console: terminal.story(console, KEPT | {"trail": trail})))
    assert "Retired at event 5 with 0 helpful and 0 harmful, back at event 7." in text


def test_an_entry_whose_beginning_was_undone_is_told_as_such() -> None:
    """It is unknown, and not as a name that nobody ever gave."""
    nothing: dict[str, Any] = {"status": "unknown", "text": None, "rule": None, "decided_by": None, "trail": []}
    told = PRUNED | nothing | {"ignored": [ignored(4, "undone")]}
    assert "What brought this entry was undone." in shown(lambda console: terminal.story(console, told))


def test_a_name_never_seen_is_told_as_such() -> None:
    """The story of an unknown name is one sentence, and what was said about it."""
    told = PRUNED | {"name": "kpt_999", "text": None, "status": "unknown", "rule": None, "decided_by": None}
    text = shown(lambda console: terminal.story(console, told | {"trail": [], "ignored": []}))
    assert "kpt_999  unknown\nNo entry ever had this name.\n" == text


@WIDTHS
def test_the_log_is_one_line_per_event_and_never_cut(width: int) -> None:
    """Long lines and line breaks in a name leave one line, so that grep finds the event."""
    long = BRIEF | {"seq": 7, "summary": "a\nb " + "x" * 200}
    lines = shown(lambda console: terminal.log_rows(console, [BRIEF, long]), width).splitlines()
    assert '   812  2026-11-21 20:17  reflector  learned kpt_004 "Write tests…"' == lines[0]
    assert [rf"     7  2026-11-21 20:17  reflector  a\nb {'x' * 200}"] == lines[1:]


def test_the_log_is_printed_as_it_comes() -> None:
    """Each event stands on the screen before the next is read."""
    stream = StringIO()
    seen = []

    def reading() -> Any:
        for seq in (1, 2):
            seen.append(stream.getvalue().count("\n"))
            yield BRIEF | {"seq": seq}

    terminal.log_rows(Console(file=stream, width=80), reading())
    assert [0, 1] == seen


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Problem("events.jsonl:812", "was changed", 812, 812)._asdict(), "events.jsonl:812: was changed\n"),
        ({"seq": 5, "line": 6, "message": "was changed"}, "line 6, seq 5: was changed\n"),
        ({"seq": None, "line": 6, "message": "was changed"}, "line 6: was changed\n"),
        ({"message": "[b] a\nb"}, "[b] a\\nb\n"),
    ],
)
def test_a_problem_is_one_line_that_says_where(problem: dict[str, Any], expected: str) -> None:
    """The place comes first, as a person would look it up."""
    assert expected == shown(lambda console: terminal.problems(console, [problem]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (AT, "2026-11-21 20:17"),
        ("2026-11-21T22:17:03+02:00", "2026-11-21 20:17"),
        ("2026-11-21T20:17:03.5", "2026-11-21 20:17"),
        ("yesterday", "yesterday"),
        ("0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00+02:00"),
        (None, "never"),
        (17, "17"),
    ],
)
def test_a_moment_reads_the_same_everywhere(value: object, expected: str) -> None:
    """Times are shown in UTC to the minute; what is no time is shown as it is."""
    assert expected == terminal.moment(value)
