"""Secrets in a model's texts: every format is masked, nothing else is, and people's texts do not change."""

from __future__ import annotations

import base64
import itertools
import json
import logging
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NoReturn
import warnings

from hypothesis import assume, given, settings
from hypothesis import strategies as st
import pytest

from helpers.example_secrets import EXAMPLES, GITHUB, MIXED, STRIPE, Example, key_block, part
from helpers.reference_model import book, extraction
from tallybook import compat
from tallybook.ledger.errors import BadInputError, LockHeldError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record, secrets
from tallybook.projections.surfaces.writing.requests import UNSCREENED, Change, Import, Request, Update

if TYPE_CHECKING:
    from pathlib import Path

REFLECTOR = {"rater": "reflector"}
EACH = pytest.mark.parametrize("example", EXAMPLES, ids=[f"{e.name} {i}" for i, e in enumerate(EXAMPLES)])
INNOCENT = [
    "",
    "kpt_001",
    "Run `pytest -q tests/test_writing_secrets.py::test_a_text_without_secrets_is_the_same_object` first.",
    "Use " + "AP" + "CUCacheAdapter and APEXTestRunner; surveyJson.value is keyJson.parse.",
    "The key test_function_of_exactly_forty_four_characters in the table.",
    "task-management-system and disk-ant-colony01-optimization-algorithm-with-a-name",
    "Clone https://git.local/team/repo@main, or ssh://git@host:22/x, not 10.0.0.7 or 8.8.8.8.",
    "Commit 3f786850e387550fdab836ed7e6dc881de23001b, id 01a20123-4156-7171-837c-90e167b24a92.",
    "BEGIN PUBLIC KEY, and sk-learn, ghp_, AKIA, eyJ, npm_config_registry, xoxb-, glpat-xyz",
    "密钥 токен 🔑 [masked: GitHub Token] [masked: whole text]",
    "postgres://user:${PASSWORD}@localhost",
]


@EACH
def test_a_secret_is_masked_anywhere(example: Example) -> None:
    """Alone, at the beginning, in the middle and at the end, next to multibyte characters, only it is replaced."""
    for before, after in itertools.product(("", "Never print ", "密钥: 🔑 "), ("", " in a log.", " é密")):
        masked = secrets.mask(f"{before}{example.text}{after}")
        assert f"{before}{example.masked}{after}" == masked.text
        assert (example.name,) == masked.names


@EACH
def test_a_repeated_secret_is_masked_each_time(example: Example) -> None:
    """Every occurrence is replaced, and counted."""
    masked = secrets.mask(f"{example.text} | {example.text}\n{example.text} ")
    assert f"{example.masked} | {example.masked}\n{example.masked} " == masked.text
    assert (example.name,) * 3 == masked.names


@EACH
def test_a_found_format_is_named_without_the_value(example: Example) -> None:
    """For a text that must not change, only the formats are named."""
    assert (example.name,) == secrets.list_formats(f"see {example.text}")
    assert () == secrets.list_formats(secrets.mask(example.text).text)


@pytest.mark.parametrize("lines", [2, 4])
def test_a_private_key_that_was_cut_off_is_masked_to_its_last_line(lines: int) -> None:
    """Without an end line, lines that look like a key's are masked; the text after them stays."""
    cut = "\n".join(key_block("RSA PRIVATE " + "KEY").splitlines()[: lines + 1])
    expected = "[masked: Private Key]" + "\nProc-Type: 4,ENCRYPTED\n" * (lines == 2)
    assert f"See {expected}\nand so on." == secrets.mask(f"See {cut}\nand so on.").text


def test_every_format_has_an_example() -> None:
    """A format of a later detect-secrets is noticed here, and gets an example."""
    names = {one.name for one in secrets._formats()[0]}
    assert {example.name for example in EXAMPLES} == names
    assert not names & {"Base64 High Entropy String", "Hex High Entropy String", "Secret Keyword", "Public IP (ipv4)"}


@pytest.mark.parametrize("text", INNOCENT)
def test_a_text_without_secrets_is_the_same_object(text: str) -> None:
    """Names, paths, digests, placeholders and masks are no secrets."""
    masked = secrets.mask(text)
    assert text is masked.text
    assert ((), ()) == (masked.names, secrets.list_formats(text))


def test_text_after_a_mask_is_checked_by_itself() -> None:
    """The words of a mask are no keyword: ``Key] name`` masks no name."""
    text = f"[masked: AWS Access Key] {MIXED[:44]} and [masked: GitHub Token]: {MIXED[:44]}"
    assert text is secrets.mask(text).text


def test_two_formats_in_one_place_are_one_mask() -> None:
    """A token that is the password of an address is reported as the token."""
    assert f"https://me:{GITHUB.masked}@git.local/" == secrets.mask(f"https://me:{GITHUB.secret}@git.local/").text


def test_a_text_that_goes_on_uncovering_secrets_is_masked_whole() -> None:
    """A text made to need a round for each secret is masked whole after a few."""
    masked = secrets.mask("GR" + "1348941" * 200 + ("GR" + "1348941") * 200)
    assert ("[masked: whole text]", "whole text") == (masked.text, masked.names[-1])


PIECES = st.one_of(
    st.sampled_from([piece for example in EXAMPLES for piece in (example.text, example.secret, example.masked)]),
    st.sampled_from(
        ["key ", "token: ", "pass=", "aws key '", "'", '"', " ", "\n", "://a:", "@", "=", "-", "密", "\\n"]
    ),
    st.sampled_from(["eyJ", "s" + "k-", "T3Blbk" + "FJ", "AK" + "C", "[masked: ", "END RSA PRIVATE " + "KEY-----"]),
    st.integers(1, 70).map(lambda length: MIXED[:length]),
    st.text(max_size=5),
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_masking_leaves_no_match_and_changes_nothing_the_second_time(text: str) -> None:
    """Any masked text holds no secret, and masking it again changes nothing."""
    once = secrets.mask(text)
    assert () == secrets.list_formats(once.text)
    assert secrets.MaskedText(once.text) == secrets.mask(once.text)
    assert bool(once.names) == (once.text != text)


SQUARE = "Square OAuth Secret"
SOUGHT = [
    *((name, pattern) for name, pattern in secrets._detectors() if name not in secrets._LEFT_OUT | {SQUARE}),
    *((one.name, one.pattern) for one in secrets._formats()[0] if one.name == SQUARE),
]


@pytest.mark.parametrize(
    "pattern", [pytest.param(pattern, id=f"{name} {i}") for i, (name, pattern) in enumerate(SOUGHT)]
)
@settings(max_examples=20)
@given(data=st.data())
def test_the_cheap_check_is_wider_than_every_format(pattern: Any, data: st.DataObject) -> None:
    """No text that a format fits, in the words of detect-secrets where ours are no narrower, is skipped."""
    assert secrets._HINT.search(data.draw(st.from_regex(pattern)))


def test_a_square_secret_has_no_backslash() -> None:
    """Square's secrets are URL-safe base64; a match of detect-secrets with backslashes is none."""
    text = "sq0" + "csp-" + "0" * 12 + "\\" + "0" * 19 + "\\" + "0" * 10
    (theirs,) = (pattern for name, pattern in secrets._detectors() if name == SQUARE)
    assert theirs.fullmatch(text)
    assert text is secrets.mask(text).text
    assert (SQUARE,) == secrets.list_formats(text.replace("\\", "_"))


@pytest.mark.parametrize("name", ["OpenAI Token", "NPM tokens"])
@given(data=st.data())
def test_our_formats_find_all_that_the_originals_do(name: str, data: st.DataObject) -> None:
    """Every match of a replaced expression of detect-secrets is found; a quote or a blank is no part of a token."""
    pattern = next(pattern for theirs, pattern in secrets._detectors() if theirs == name)
    text = data.draw(st.from_regex(pattern))
    found = pattern.search(text)
    assert found is not None
    assume(name != "NPM tokens" or not found[2] or re.match(r"npm_[^\s\"']", found[2]))
    assert name in secrets.list_formats(text)


JSON_OBJECTS = st.dictionaries(st.text("abcdefgh", min_size=1), st.integers() | st.text(), min_size=1, max_size=3)


@given(JSON_OBJECTS, JSON_OBJECTS, st.sampled_from(["", "surveyJson.", "keyJwt=", "密", "Bearer "]))
def test_a_json_web_token_is_found_whatever_its_content(head: Any, body: Any, before: str) -> None:
    """Header and payload of any content are found after names that look like their beginning, without a signature."""
    assert f"{before}[masked: JSON Web Token]" == secrets.mask(f"{before}{part(head)}.{part(body)}").text


def test_a_deeply_nested_token_is_masked() -> None:
    """A payload that the reader refuses is masked, and raises nothing."""
    deep = base64.urlsafe_b64encode(b'{"a":' + b"[" * 60_000).decode().rstrip("=")
    assert "[masked: JSON Web Token]" == secrets.mask(f"{deep}.{deep}").text


@pytest.mark.parametrize(
    "text",
    [
        "key" + " " * 100_000 + "x",
        "eyJ" * 33_000,
        ("s" + "k-") * 33_000,
        "/" * 100_000,
        "//" * 50_000 + "/:_auth" + "Token=",
        "://" * 33_000 + "@",
        "-" * 100_000 + "x" * 20,
        "BEGIN " * 16_000 + "PRIVATE",
        "END PRIVATE " * 8_000 + "x" * 20,
        ("xox" + "b-") * 20_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_text_is_searched_quickly(text: str) -> None:
    """A text on which the expressions of detect-secrets take minutes or never end is searched in time."""
    assert text is secrets.mask(text).text


WARNINGS = """
import logging, warnings
shown = warnings.showwarning
from tallybook.projections.surfaces.writing import secrets as screen
screen.mask("something_like_a_token")
print(shown is warnings.showwarning, logging._warnings_showwarning)
"""


def test_loading_the_detector_leaves_the_process_its_warnings() -> None:
    """detect-secrets redirects a process's warnings to its log; a program that imports Tallybook keeps its own."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", WARNINGS], capture_output=True, text=True, check=False)
    assert ("True None\n", "") == (done.stdout, done.stderr)


def test_a_process_that_logs_its_warnings_still_does() -> None:
    """If the program itself redirected its warnings to the log before, they still go there."""
    logging.captureWarnings(capture=True)
    try:
        shown = warnings.showwarning
        secrets._detectors()
        assert shown is warnings.showwarning
    finally:
        logging.captureWarnings(capture=False)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project without a ledger."""
    return Project(project)


def everything_in(project: Project) -> bytes:
    """Return the bytes of every file of a project's ``.claude``."""
    return b"\0".join(path.read_bytes() for path in sorted(project.claude.rglob("*")) if path.is_file())


@pytest.mark.parametrize("rater", ["reflector", "agent", "tallybook", "somebody"])
def test_a_models_text_is_masked_before_it_is_written(here: Project, rater: str) -> None:
    """No file of the project holds the secret, the playbook has the mask, and a note reports it."""
    payload = {
        "new_key_points": ["plain", f"Export {GITHUB.text} and {STRIPE.text}"],
        "evaluations": [{"name": GITHUB.text, "rating": "helpful"}, {"name": "kpt_001", "rating": STRIPE.text}],
        STRIPE.text: {"more": [GITHUB.text, 7, None]},
    }
    outcome = commands.record(here, payload, {"rater": rater})
    assert not any(example.secret.encode() in everything_in(here) for example in (GITHUB, STRIPE))
    texts = [point["text"] for point in commands.show(here)["key_points"]]
    assert ["plain", f"Export {GITHUB.masked} and {STRIPE.masked}"] == texts
    assert [
        "new_key_points[1]: 2 secrets were masked (GitHub Token, Stripe Access Key)",
        "evaluations[0]: a secret was masked (GitHub Token)",
        "evaluations[1]: a secret was masked (Stripe Access Key)",
        "payload: 2 secrets were masked (Stripe Access Key, GitHub Token)",
    ] == list(outcome.notes)


@pytest.mark.parametrize("rater", sorted(UNSCREENED))
def test_a_persons_text_is_not_changed(here: Project, rater: str) -> None:
    """It is recorded word for word, without a note."""
    outcome = commands.record(here, extraction(new=[GITHUB.text]), {"rater": rater})
    assert ([GITHUB.text], ()) == ([point["text"] for point in commands.show(here)["key_points"]], outcome.notes)


def test_a_text_of_a_file_or_a_program_is_not_changed() -> None:
    """An import and a changed dict are recorded unchanged."""
    requests = (
        Request(Import(json.dumps(book(GITHUB.text)).encode(), "old.json"), {"rater": "import"}),
        Request(Change((), (), json.dumps({"note": GITHUB.text})), {"rater": "agent"}),
    )
    assert (requests, ()) == secrets.mask_requests(requests)


def test_the_name_that_a_program_gave_follows_the_masked_text() -> None:
    """Names are looked up by text, so the text there is masked too; of two that become one the first name stays."""
    texts = [f"Use {GITHUB.text}", f"Use {GITHUB.text[:-1]}Z", "plain"]
    names = dict(zip(texts, ["kpt_001", "kpt_002", "kpt_003"], strict=True))
    (request,), _ = secrets.mask_requests([Request(Update(extraction(new=texts), names), REFLECTOR)])
    assert isinstance(request.action, Update)
    assert {f"Use {GITHUB.masked}": "kpt_001", "plain": "kpt_003"} == request.action.names


def test_a_save_by_old_code_is_screened_and_keeps_its_names(here: Project) -> None:
    """An update by the old functions is masked on its way to the ledger, and rated by its name afterwards."""
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(new=[f"Use {GITHUB.text}"]))
    compat.save_playbook(playbook)
    compat.update_playbook_data(playbook, extraction(("kpt_001", "helpful")))
    compat.save_playbook(playbook)
    (point,) = commands.show(here)["key_points"]
    assert ("kpt_001", f"Use {GITHUB.masked}", 1) == (point["name"], point["text"], point["helpful"])
    assert GITHUB.secret.encode() not in everything_in(here)


def test_a_spooled_payload_is_masked(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload that could not be recorded at once is in its file without the secret, and is noted."""

    def held(*_: object) -> NoReturn:
        raise LockHeldError(here.ledger, 250)

    monkeypatch.setattr(record, "_append", held)
    outcome = commands.record(here, extraction(new=[GITHUB.text]), REFLECTOR)
    assert (True, ("new_key_points[0]: a secret was masked (GitHub Token)",)) == (outcome.spooled, outcome.notes)
    assert GITHUB.secret.encode() not in everything_in(here)
    assert b"[masked: GitHub Token]" in everything_in(here)


def test_a_payload_too_deep_to_search_is_refused() -> None:
    """A program's payload that no JSON reader accepts is bad input, not a crash."""
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(BadInputError, match="nested too deeply"):
        secrets.mask_payload({"new_key_points": [deep]})
    assert ("no object", ()) == secrets.mask_payload("no object")


LOADED = """
import sys
from tallybook.projections.surfaces.entry_point import run
code = run(["record"])
print("detect_secrets" in sys.modules)
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("payload", "loaded"),
    [
        (extraction(("kpt_001", "helpful"), ("use_type_hints", "harmful")), False),
        (extraction(new=["Run the tests first.", "Never force-push."]), False),
        (extraction(new=[f"Use {GITHUB.text}"]), True),
    ],
)
def test_the_detector_is_loaded_only_for_what_could_hold_a_secret(
    project: Path, payload: dict[str, Any], loaded: bool
) -> None:
    """Ratings and plain sentences are recorded without it; a text with a token-like word loads it."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
    )
    assert (0, str(loaded)) == (done.returncode, done.stdout.splitlines()[-1])
    assert loaded == ("note: new_key_points[0]: a secret was masked (GitHub Token)" in done.stderr)
