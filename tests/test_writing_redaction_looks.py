r"""`redact` finds a text that looks the same: composed or not, other white space, invisible characters, escapes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
import unicodedata

import pytest

from helpers.authors import HUMAN
from helpers.redactions import counts, held, project_with_secret, strike, texts
from tallybook.ledger.line import Position
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.sharing import replica
from tallybook.ledger.storage import disk, redaction, spool
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.writing.redact import NothingToRedactError, RedactionTarget, find_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallybook.projections.surfaces.workspace.project import Project


NAME = "José Martínez"
ALIKE = {
    "decomposed": unicodedata.normalize("NFD", NAME),
    "no-break space": NAME.replace(" ", "\u00a0"),
    "line break": NAME.replace(" ", "\n"),
    "two blanks": NAME.replace(" ", " \t "),
    "soft hyphen": NAME.replace("tín", "tí\u00adn"),
    "zero width": NAME.replace("tín", "tí\u200bn"),
    "byte order mark": NAME.replace("tín", "\ufefftín"),
    "within a letter": unicodedata.normalize("NFD", NAME).replace("\u0301", "\u200d\u0301"),
    "full width": NAME.replace("Mart", "\uff2d\uff41\uff52\uff54"),
    "control": NAME.replace("tín", "tí\x01n"),
    "variation selector": NAME.replace("tín", "tí\ufe0fn"),
}
OTHERS = ["Jose Martinez", "José", "JoséMartínez"]


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries and three ratings; one text has the secret."""
    return project_with_secret(project)


@pytest.mark.parametrize("look", ALIKE.values(), ids=ALIKE)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_text_that_looks_the_same_is_redacted(here: Project, look: str, *, is_swapped: bool) -> None:
    """A name is found in the log and a file whichever of its looks is given, and others are left."""
    given, recorded = (look, NAME) if is_swapped else (NAME, look)
    for text in (f"Ask {recorded} first", *OTHERS):
        commands.add(here, text, HUMAN)
    path = here.ledger / "a.json"
    path.write_text(json.dumps({"t": [f"Ask {recorded}", *OTHERS]}))
    done = strike(here, given)
    assert (1, 1, ()) == (len(done.events), done.alike, done.erased.remaining)
    assert [REDACTED, *OTHERS] == texts(here)[3:]
    masked, *left = json.loads(path.read_text())["t"]
    assert ("*", OTHERS) == (masked[-1], left)
    assert () == commands.verify_and_fold(here)[0].problems


@pytest.mark.parametrize("look", ALIKE.values(), ids=ALIKE)
def test_a_text_that_looks_like_a_redacted_one_does_not_return(here: Project, look: str) -> None:
    """An update with another look of a redacted text is refused, as a whole text and within another."""
    commands.add(here, NAME, HUMAN)
    strike(here, NAME)
    for text in (look, f"Ask {look} first"):
        assert "was redacted" in commands.record(here, {"new_key_points": [text]}, HUMAN).ignored[0].reason
    commands.record(here, {"new_key_points": OTHERS}, HUMAN)
    assert [REDACTED, *OTHERS] == texts(here)[3:]


def test_a_look_with_few_visible_characters_matches_nothing_else(here: Project) -> None:
    """A text of which almost nothing is visible is redacted as it is, not wherever its one letter occurs."""
    hidden = "a\u200b\u200b\u200b"
    commands.add(here, f"Say {hidden} here", HUMAN)
    commands.add(here, "This is a text", HUMAN)
    strike(here, hidden)
    assert [REDACTED, "This is a text"] == texts(here)[3:]
    assert not commands.record(here, {"new_key_points": ["Take a break"]}, HUMAN).ignored


def escaped(text: str) -> str:
    r"""Return a text in which every character is a ``\u`` escape."""
    return "".join(f"\\u{ord(char):04x}" for char in text)


def capital(text: str) -> str:
    r"""Return the same with capital digits."""
    return "".join(f"\\u{ord(char):04X}" for char in text)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("make", [escaped, capital, str], ids=["escaped", "capital", "plain"])
def test_escapes_in_a_broken_playbook_that_was_set_aside_are_erased(
    here: Project, layers: int, make: Callable[[str], str]
) -> None:
    r"""A broken ``playbook.json.unreadable-*`` loses a text of ``\u`` escapes, of each layer of JSON, and no other."""
    spelled = make(NAME)
    for _ in range(layers - 1):
        spelled = json.dumps(spelled)[1:-1]
    path = here.claude / "playbook.json.unreadable-20261118T110640"
    broken = '{"key_points": [\n"Use \\"quotes\\"",\n"an open string,\n"Ask %s first",\n"Test the edges"'
    path.write_text(broken % spelled)
    done = strike(here, NAME)
    assert ((path,), ()) == (done.erased.files, done.erased.remaining)
    data = path.read_text()
    assert len((broken % spelled).encode()) == len(data.encode())
    assert "*" in data
    assert all(line in data for line in ('"Use \\"quotes\\"",', '"Test the edges"'))
    assert NAME not in json.loads(f'"{data.split(chr(10))[3][1:-2]}"')


@pytest.fixture
def mine(here: Project) -> Project:
    """Return the person's own playbook with the name in an entry."""
    assert 0 == main.run(["--project", str(here.root), "init", "--mine"])
    mine = personal.require_own(here)
    commands.add(mine, f"Ask {ALIKE['decomposed']}", HUMAN)
    return mine


def test_the_persons_own_playbook_is_named_if_it_holds_the_text(
    here: Project, mine: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer names the person's own playbook, which a redaction in the project does not change."""
    commands.add(here, NAME, HUMAN)
    words = ["--project", str(here.root), "redact", "--text", NAME, "--reason", "private", "--yes", "--expect", "1"]
    capsys.readouterr()
    assert 0 == main.run(words)
    out = capsys.readouterr().out
    assert f"not redacted: your own playbook, {mine.root}, holds it as well; run the same command with --mine" in out
    with pytest.raises(NothingToRedactError, match=r"your own playbook, .*, does: redact it with --mine"):
        find_text(here, RedactionTarget(text=NAME))
    assert 0 == main.run([*words, "--mine", "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (None, 1, [REDACTED]) == (answer["mine"], answer["alike"], texts(mine))
    with pytest.raises(NothingToRedactError) as nothing:
        find_text(here, RedactionTarget(text=NAME))
    assert "--mine" not in str(nothing.value)


WORDS = ["evaluations", "2026"]


@pytest.mark.parametrize("word", WORDS)
def test_a_pending_redaction_of_a_word_of_our_json_keeps_the_spooled_ratings(here: Project, word: str) -> None:
    """A payload that waits while a redaction is pending is recorded whole: its format is not overwritten."""
    commands.add(here, f"Never say {word} aloud", HUMAN)
    fd = os.open(here.ledger / "render.lock", os.O_RDWR)
    try:
        assert disk.try_lock(fd)
        assert "not finished" in strike(here, word).erased.remaining[0]
        payload = {
            "evaluations": [{"name": "kpt_001", "rating": "helpful", "justification": "it found a bug"}],
            "new_key_points": ["Plan before the work"],
        }
        with held(here):
            assert commands.record(here, payload, HUMAN).spooled
    finally:
        os.close(fd)
    commands.replay(here)
    assert None is redaction.read_pending(here.ledger)
    assert ([], ([], [])) == (list(commands.verify_and_fold(here)[0].problems), spool.read_files(here.ledger))
    assert ("kpt_001", 2, 0) in counts(here)
    assert [REDACTED, "Plan before the work"] == texts(here)[3:]


@pytest.mark.parametrize("word", ["taken", "true", "1234", "beef"])
def test_a_word_number_or_digest_of_our_json_is_not_overwritten(here: Project, word: str) -> None:
    """The pointer to a book's copy stays as it was: keys, numbers and digests of ledger files hold no text."""
    commands.add(here, f"Never say {word} aloud", HUMAN)
    current = replica.Current("7", Position(1234, "beef" * 8, 12345), taken=12340)
    replica.write_current(here.ledger, current)
    other = here.ledger / "flags.json"
    other.write_text('{"x": true, "y": null, "z": 1234}')
    done = strike(here, word)
    assert ((), current) == (done.erased.remaining, replica.read_current(here.ledger))
    assert {"x": True, "y": None, "z": 1234} == json.loads(other.read_text())
    assert REDACTED == texts(here)[3]


def test_a_value_that_is_more_than_a_word_of_our_json_is_erased(here: Project) -> None:
    """A text in a value, or in a key that is no word, is overwritten beside keys that are spelled like it."""
    path = here.ledger / "spool" / "a.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"evaluations": ["my evaluations", "evaluations"], "No evaluations!": 1, "names": {}}))
    strike(here, "evaluations")
    assert '{"evaluations": ["my ***********", "***********"], "No ***********!": 1, "names": {}}' == path.read_text()


def test_a_secret_in_the_form_of_a_digest_is_erased_where_it_is_the_whole_text(here: Project) -> None:
    """Digests stay if a redacted text is a part of them, not if it is all of them."""
    secret = "0123456789abcdef" * 2
    (here.ledger / "a.json").write_text(json.dumps({"chain": secret}))
    with pytest.raises(NothingToRedactError):
        strike(here, "cdef")
    strike(here, secret)
    assert {"chain": "*" * 32} == json.loads((here.ledger / "a.json").read_text())


def test_a_broken_file_and_a_file_that_nobody_reads_again_lose_their_keys(here: Project) -> None:
    """What was set aside is no document of Tallybook's, so a key there may be a text, and is overwritten."""
    paths = [here.claude / f"playbook.json.unreadable-20261118T11064{n}" for n in range(2)]
    for path, end in zip(paths, ("}", ""), strict=True):
        path.write_text('{"hunter": "hunter"' + end)
    done = strike(here, "hunter")
    assert paths == sorted(done.erased.files)
    assert ['{"******": "******"}', '{"******": "******"'] == [path.read_text() for path in paths]
