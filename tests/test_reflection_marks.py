"""Marks: the lines by which an agent rates entries and proposes lessons, and what only looks like one."""

from __future__ import annotations

from importlib.metadata import distributions
from itertools import islice
from pathlib import Path
import re
from time import process_time

import pytest

from tallybook.projections.playbook.inject import PLACEHOLDER
from tallybook.projections.surfaces.reflection.marks import MAX_LESSONS, MAX_RATINGS, Mark, MessageMarks, read_marks
from tallybook.projections.surfaces.workspace.templates import load_template

NAMES = ("kpt_001", "kpt_002", "kpt_003", "kpt_004", "my_001", "two words")
HELPFUL = (Mark("kpt_003", "helpful"),)
GONE = (Mark("kpt_004", "harmful", "the flag is gone"),)
LESSON = "run make seed before pytest"

RATINGS = {
    "[kpt_003 helpful]": HELPFUL,
    "- [kpt_003 helpful]": HELPFUL,
    "* [kpt_003 helpful]": HELPFUL,
    "  1. [kpt_003 helpful]": HELPFUL,
    "2) [kpt_003 helpful]": HELPFUL,
    "- [x] [kpt_003 helpful]": HELPFUL,
    "**[kpt_003 helpful]**": HELPFUL,
    "- *[kpt_003 helpful]*": HELPFUL,
    "_[kpt_003 helpful]_": HELPFUL,
    "`[kpt_003 helpful]`": HELPFUL,
    "[**kpt_003** helpful]": HELPFUL,
    "[`kpt_003` **helpful**]": HELPFUL,
    "| [kpt_003 helpful] |": HELPFUL,
    r"\[kpt\_003 helpful\]": HELPFUL,
    "[KPT_003 Helpful]": HELPFUL,
    "[kpt_3 helpful]": HELPFUL,
    "[kpt_003\u00a0helpful\u200b]": HELPFUL,
    "[kpt_003: helpful]": HELPFUL,
    "[kpt_003 - helpful]": HELPFUL,
    "[kpt_003] helpful": HELPFUL,
    "[kpt_003]: helpful": HELPFUL,
    "✓ [kpt_003 helpful]": HELPFUL,
    "[kpt_003 helpful] ✅": HELPFUL,
    "[kpt_003 helpful].": HELPFUL,
    "[kpt_003 helpful]。": HELPFUL,
    "Done.\r\n\r\n[kpt_003 helpful]\r\n": HELPFUL,
    "Changes:\n- a parser\n\nAll tests pass.\n\n[kpt_003 helpful]": HELPFUL,
    "Changes:\n\n## Parser\nfaster\n\n[kpt_003 helpful]": HELPFUL,
    "**Playbook marks:**\n[kpt_003 helpful]": HELPFUL,
    "```sh\nls\n```\n[kpt_003 helpful]": HELPFUL,
    "Fixed.\n\n```\n[kpt_003 helpful]\n```": HELPFUL,
    "Fixed.\n\n~~~text\n- [kpt_003 helpful]\n\n~~~\n": HELPFUL,
    "I write `<!--` now.\n\n[kpt_003 helpful]": HELPFUL,
    "<!-- generated -->\n[kpt_003 helpful]": HELPFUL,
    "> as you said\n\n[kpt_003 helpful]": HELPFUL,
    "[kpt_003 helpful]\n\nAnything else?": HELPFUL,
    "[kpt_003 harmful: no]\n[kpt_003 helpful]": HELPFUL,
    "[kpt_003 helpful: used it]": (Mark("kpt_003", "helpful", "used it"),),
    "[kpt_003 helpful] — used it": (Mark("kpt_003", "helpful", "used it"),),
    "[kpt_003 neutral]": (Mark("kpt_003", "neutral"),),
    "[kpt_004 harmful: the flag is gone]": GONE,
    "[kpt_004 harmful\uff1athe flag is gone]": GONE,
    "[kpt_004 harmful — the flag is gone]": GONE,
    "[kpt_004 harmful] — the flag is gone.": GONE,
    "[kpt_004] harmful: the flag is gone": GONE,
    "- [kpt_004 harmful: the flag\n  is gone]": GONE,
    "[kpt_004 harmful:\nthe flag\nis gone]": GONE,
    "[kpt_003 helpful] [kpt_004 harmful: the flag is gone]": HELPFUL + GONE,
    "[kpt_003 helpful], [kpt_004 harmful: the flag is gone]": HELPFUL + GONE,
    "| [kpt_003 helpful] | [kpt_004 harmful: the flag is gone] |": HELPFUL + GONE,
    "[kpt_004 harmful: use list[int] now]": (Mark("kpt_004", "harmful", "use list[int] now"),),
    "[kpt_004 harmful] — use list[int] now": (Mark("kpt_004", "harmful", "use list[int] now"),),
    "[kpt_001, kpt_002 helpful]": (Mark("kpt_001", "helpful"), Mark("kpt_002", "helpful")),
    "[kpt_001 kpt_002 helpful]": (Mark("kpt_001", "helpful"), Mark("kpt_002", "helpful")),
    "[kpt_001 and kpt_002 helpful]": (Mark("kpt_001", "helpful"), Mark("kpt_002", "helpful")),
    "[my_1, two words, and kpt_001 neutral]": (
        Mark("my_001", "neutral"),
        Mark("two words", "neutral"),
        Mark("kpt_001", "neutral"),
    ),
    "[kpt_404 helpful]\n[kpt_003 helpful]": HELPFUL,
}
NO_MARKS = [
    "I used the cache [kpt_003 helpful].",
    "[kpt_003 helpful] told me to use the cache.",
    "[kpt_003] was helpful",
    "[kpt_003]",
    "[kpt_003 not helpful]",
    "[kpt_003 unhelpful]",
    "kpt_003 helpful",
    "(kpt_003 helpful)",
    "[helpful]",
    "[NAME helpful]",
    "[NAME harmful: why]",
    "[kpt_404 helpful]",
    "[kpt_404, kpt_003 helpful]",
    "[kpt_003 kpt_404 helpful]",
    "[kpt_003 harmful]",
    "[kpt_003 harmful:]",
    "[kpt_003 harmful: …]",
    "[kpt_003 harmful: why]",
    "[kpt_003 helpful",
    "[kpt_003\n\nhelpful]",
    "[kpt_004 harmful:\nthe\nflag\nis gone]",
    "> [kpt_003 helpful]",
    "- > [kpt_003 helpful]",
    "> The README says\n[kpt_003 helpful]",
    '"[kpt_003 helpful]"',
    "“[kpt_003 helpful]”",
    "    [kpt_003 helpful]",
    "Code\n\n\t[kpt_003 helpful]",
    "[kpt_003 helpful](https://example.org)",
    "![kpt_003 helpful](picture.png)",
    "[kpt_003 helpful]: https://example.org",
    "[kpt_003 helpful][1]",
    "<!-- [kpt_003 helpful] -->",
    "<!--\n[kpt_003 helpful]\n-->",
    "<!--\n[kpt_003 helpful]",
    "see <!-- this\n[kpt_003 helpful]\n-->",
    "<pre>\n[kpt_003 helpful]\n</pre>",
    "<blockquote>\n\n[kpt_003 helpful]",
    "```\n[kpt_003 helpful]\n```\n\nThat is all.",
    "```\n[kpt_003 helpful]",
    "Fixed.\n\n```\nls\n[kpt_003 helpful]\n```",
    "The README says:\n```\n[kpt_003 helpful]\n```",
    "The answer ended with:\n\n[kpt_003 helpful]\n\n[kpt_001 helpful]",
    "**Commit message:**\n\n[kpt_003 helpful]",
    "Commit message:\n\nFix the parser\n\n[kpt_003 helpful]",
    "Here is the README:\n\n# Tool\n\nUse it.\n\n[kpt_003 helpful]",
    "# Tool\n\nUse it.\n\n[kpt_003 helpful]\n\n## License\n\nMIT",
    "It ends so.\n[kpt_003 helpful]\nThen it goes on.\nAnd on.",
    f"[kpt_004 harmful: {'x' * 2_000}]",
]


@pytest.mark.parametrize(("text", "ratings"), RATINGS.items())
def test_a_line_of_marks_rates_in_each_of_the_known_forms(text: str, ratings: tuple[Mark, ...]) -> None:
    """Lines that consist of marks rate, whatever signs of Markdown are around them."""
    assert MessageMarks(ratings) == read_marks(text, NAMES)


@pytest.mark.parametrize("text", NO_MARKS)
def test_what_is_no_line_of_marks_rates_nothing(text: str) -> None:
    """Sentences, quotes, code, comments, links, quoted documents and incomplete marks rate nothing."""
    assert MessageMarks() == read_marks(text, NAMES)


@pytest.mark.parametrize(
    ("text", "lessons"),
    {
        f"[kpt_new: {LESSON}]": (LESSON,),
        f"- **[kpt_new: {LESSON}]**": (LESSON,),
        f"[KPT_NEW — {LESSON}]": (LESSON,),
        f"[kpt_003 helpful]\n[kpt_new: {LESSON}]": (LESSON,),
        "[kpt_new: run make seed\nbefore pytest]": (LESSON,),
        f"[kpt_new: {LESSON}]\n" * 2: (LESSON,),
        "[kpt_new: 测试之前必须先运行数据库初始化脚本]": ("测试之前必须先运行数据库初始化脚本",),
        "[kpt_new: …]": (),
        "[kpt_new: too short]": (),
        f"[kpt_new: {'x' * 301}]": (),
        f"[learned: {LESSON}]": (),
        f"> [kpt_new: {LESSON}]": (),
        f"I add [kpt_new: {LESSON}] to it.": (),
        "".join(f"[kpt_new: {LESSON} {number}]\n" for number in range(9)): tuple(
            f"{LESSON} {number}" for number in range(MAX_LESSONS)
        ),
    }.items(),
)
def test_a_lesson_is_a_mark_of_twelve_to_three_hundred_characters(text: str, lessons: tuple[str, ...]) -> None:
    """A lesson is read whether or not any entry can be rated, and at most three of a message."""
    assert lessons == read_marks(text).lessons


def test_a_message_rates_at_most_ten_entries() -> None:
    """The eleventh entry that a message rates is left out."""
    names = [f"kpt_{number:03d}" for number in range(1, 21)]

    ratings = read_marks("".join(f"[{name} helpful]\n" for name in names), names).ratings

    assert names[:MAX_RATINGS] == [mark.name for mark in ratings]


@pytest.mark.parametrize("form", ["{}", "```\n{}\n```", "> {}", "- {}", "So it says:\n{}"])
def test_the_injected_text_itself_holds_no_mark(form: str) -> None:
    """The injected text, repeated whole, quoted or fenced, rates nothing and proposes nothing."""
    block = load_template().replace(PLACEHOLDER, "\n".join(f"[{name}] helpful=1 harmful=0 :: text" for name in NAMES))

    assert MessageMarks() == read_marks(form.format(block), NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "[kpt_003 harmful: " + "x" * 40_000 + "]",
        "[" * 40_000,
        " " * 40_000 + "[kpt_003",
        "[kpt_003 harmful: x\n" * 2_000,
        ("- " + " " * 1_990 + "[\n") * 20,
        ("[" * 1_999 + "\n") * 20,
        "a <!--\n" * 6_000,
        "<pre\n" * 8_000,
        "`" * 40_000,
        "[kpt_003] helpful:\n" * 2_000,
        ("[kpt_003 " + "kpt_003 " * 240 + "]\n") * 20,
        ("_*" * 999 + "\n") * 20,
    ],
)
def test_a_message_of_forty_kilobytes_is_read_in_linear_time(text: str) -> None:
    """Forty kilobytes of brackets, blanks, comments or fences take less than half a second."""
    begin = process_time()
    read_marks(text, NAMES)

    assert process_time() - begin < 0.5


def test_the_documents_of_installed_packages_hold_no_mark() -> None:
    """No readme or document of the installed packages holds a mark, even if any word were a name."""
    endings = (".md", ".rst", ".txt", "METADATA")
    files = [file for package in distributions() for file in package.files or () if file.name.endswith(endings)]
    paths = [Path(str(file.locate())) for file in islice(files, 300)]
    texts = [path.read_text("utf-8", "replace") for path in paths if path.is_file()]
    if not texts:
        pytest.skip("no installed package brings Markdown")

    found = [read_marks(text, set(re.findall(r"\w+", text))) for text in texts]

    assert [MessageMarks()] * len(texts) == found
