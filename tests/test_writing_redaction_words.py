"""A redacted text that is a word of Tallybook's own JSON: only values are erased, and the format stays readable."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.redactions import counts, held, project_with_secret, strike, texts
from tallybook.ledger.line import Position
from tallybook.ledger.sharing import replica
from tallybook.ledger.storage import disk, redaction, spool
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.writing import erasure
from tallybook.projections.surfaces.writing.erasure import TextSearch
from tallybook.projections.surfaces.writing.redact import NothingToRedactError

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.projections.surfaces.workspace.project import Project


WORDS = ["evaluations", "requests", "2026", "kpt_", "helpful", "update", "human", "point.noted"]


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries and three ratings."""
    return project_with_secret(project)


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
    assert ([], ([], [])) == (list(commands.verify(here).problems), spool.read_files(here.ledger))
    assert ("kpt_001", 2, 0) in counts(here)
    assert [REDACTED, "Plan before the work"] == texts(here)[3:]


@pytest.mark.parametrize("word", ["copy", "taken", "block", "true", "1234", "beef", "null"])
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


def test_each_line_of_json_keeps_its_words(here: Project) -> None:
    """A file with one JSON document a line is read by lines, and only its values are erased."""
    path = here.ledger / "lines.jsonl"
    path.write_text('{"text": "a text"}\n\n{"text": "no text\u2028", "ok": 1}\n')
    assert erasure.overwrite(path, TextSearch(["text"]), is_read=True)
    assert '{"text": "a ****"}\n\n{"text": "no ****\u2028", "ok": 1}\n' == path.read_text()


def test_a_secret_in_the_form_of_a_digest_is_erased_where_it_is_the_whole_text(here: Project) -> None:
    """Digests stay if a redacted text is a part of them, not if it is all of them."""
    secret = "0123456789abcdef" * 2
    (here.ledger / "a.json").write_text(json.dumps({"chain": secret}))
    with pytest.raises(NothingToRedactError):
        strike(here, "cdef")
    strike(here, secret)
    assert {"chain": "*" * 32} == json.loads((here.ledger / "a.json").read_text())


def test_the_keys_of_the_rendering_are_no_redacted_text(here: Project) -> None:
    """Redacting the word `helpful` neither calls the keys of playbook.json a text nor each rating a match."""
    commands.add(here, "A helpful word", HUMAN)
    done = strike(here, "helpful")
    assert ((), (), 1) == (done.erased.remaining, done.bodies, len(done.events))


def test_a_broken_file_and_a_file_that_nobody_reads_again_lose_their_keys(here: Project) -> None:
    """What was set aside is no document of Tallybook's, so a key there may be a text, and is overwritten."""
    paths = [here.claude / f"playbook.json.unreadable-20261118T11064{n}" for n in range(2)]
    for path, end in zip(paths, ("}", ""), strict=True):
        path.write_text('{"hunter": "hunter"' + end)
    done = strike(here, "hunter")
    assert paths == sorted(done.erased.files)
    assert ['{"******": "******"}', '{"******": "******"'] == [path.read_text() for path in paths]
