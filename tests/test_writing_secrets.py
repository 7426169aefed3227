"""Secrets in a model's texts: every format is masked, nothing else is, and people's texts do not change."""

from __future__ import annotations

import base64
from importlib.metadata import distributions
import itertools
import random
import re
import time
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.example_secrets import EXAMPLES, GITHUB, MIXED, STRIPE, SecretExample, key_block
from helpers.ledger_files import hold_ledger_lock
from helpers.reference_model import extraction
from tallybook import compat
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, secrets

EACH = pytest.mark.parametrize("example", EXAMPLES, ids=[f"{e.name} {i}" for i, e in enumerate(EXAMPLES)])


@EACH
def test_a_secret_is_masked_anywhere(example: SecretExample) -> None:
    """Alone, at the beginning, in the middle and at the end, next to multibyte characters, only it is replaced."""
    for before, after in itertools.product(("", "Never print ", "密钥: 🔑 "), ("", " in a log.", " é密")):
        formats: list[str] = []
        assert f"{before}{example.masked}{after}" == secrets.mask(f"{before}{example.text}{after}", formats)
        assert [example.name] == formats


@pytest.mark.parametrize("lines", [2, 4])
def test_a_private_key_that_was_cut_off_is_masked_to_its_last_line(lines: int) -> None:
    """Without an end line, lines that look like a key's are masked; the text after them stays."""
    cut = "\n".join(key_block("RSA PRIVATE " + "KEY").splitlines()[: lines + 1])
    expected = "[masked: Private Key]" + "\nProc-Type: 4,ENCRYPTED\n" * (lines == 2)
    assert f"See {expected}\nand so on." == secrets.mask(f"See {cut}\nand so on.")


@pytest.mark.parametrize("row", secrets.PREFIXED, ids=lambda row: " ".join(map(str, row)))
def test_every_prefix_of_the_table_has_an_example(row: tuple[str, str, str, int]) -> None:
    """Each row of the table masks an example of its format."""
    name, prefix, alphabet, least = row
    pattern = re.compile(f"{prefix}{alphabet}{{{least},}}", re.ASCII)
    assert any(pattern.match(example.secret) for example in EXAMPLES if example.name == name)


@EACH
def test_what_another_scanner_finds_in_an_example_is_masked(example: SecretExample) -> None:
    """A finding of a scanner that somebody else maintains is never left in the masked text."""
    # There are wheels for the usual machines alone.
    scanner = pytest.importorskip("redact_secret")
    text = f"see {example.text} x"
    masked = secrets.mask(text)
    assert [] == [
        text[finding.start : finding.end]
        for finding in scanner.scan(text)
        if text[finding.start : finding.end] in masked
    ]


@pytest.mark.parametrize(
    "before", [r"\n", r"\t", "%3D", "\x1b[32m", "\x1b[1;31m", '"', "'", "=", "(", "_", "/", "密"], ids=ascii
)
def test_a_token_is_found_next_to_what_begins_no_word(before: str) -> None:
    """A token behind an escape of JSON, of an address or of a terminal is masked like any other."""
    assert f"{before}{GITHUB.masked}" == secrets.mask(f"{before}{GITHUB.text}")


def make_ordinary_lines() -> list[str]:
    """Return 2,000 lines without a secret: of packages' descriptions, and digests, ids and images as they occur."""
    chance = random.Random(25)  # noqa: S311 - lines, not keys
    metadata = (distribution.read_text("METADATA") or "" for distribution in distributions())
    # What a project shows as a token of its own is one.
    lines = {line for text in metadata for line in text.splitlines() if line and "eyJ" not in line and "@" not in line}
    made = []
    for _ in range(55):
        commit, digest, raw = chance.randbytes(20).hex(), chance.randbytes(32), chance.randbytes(300)
        name, url_safe = UUID(bytes=chance.randbytes(16), version=4), base64.urlsafe_b64encode(raw).decode()
        made += [
            f"{commit} Fix the parser",
            f"release-{commit}",
            f"release-{commit[:12]}-{name}",
            f"sha256-{base64.b64encode(digest).decode()}",
            f"sha512-{base64.b64encode(raw[:64]).decode()}",
            f"sha256:{digest.hex()}",
            f"tallybook/page.py,sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')},3041",
            f"cache-key-{digest.hex()}",
            str(name),
            f"session_{name}",
            f"task-{name}.json",
            f"main.{commit}.chunk.js and libcore-{commit[:16]}.so",
            f"index-{url_safe[:22]}.css",
            f"![image](data:image/png;base64,{base64.b64encode(raw).decode()})",
            url_safe,
        ]
    return [*chance.sample(sorted(lines), 2000 - len(made)), *made]


def test_ordinary_lines_are_not_masked() -> None:
    """In 2,000 lines of descriptions, digests, ids and images nothing is taken for a secret."""
    lines = make_ordinary_lines()
    assert (2000, []) == (len(lines), [line for line in lines if secrets.mask(line) != line])


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
    formats: list[str] = []
    once = secrets.mask(text, formats)
    assert () == secrets.list_formats(once)
    assert once == secrets.mask(once)
    assert bool(formats) == (once != text)


HOSTILE = [
    *("key ", "_", "-", "a-", "/", "//", "://", "://a:", "%3D", "[1m", "a", "0", "ab1", "1/1234567890/12345:", "MDAw"),
    *("eyJ", "eyJaaaaaaaa-", "s" + "k-", "-s" + "k-", "key-", "xox" + "b-", "hvs.", "dp.st.aa-"),
    *("SG.aaaaaaaaaaaaaaaa.", "aws_", "aws key ", "ibm-", "sl-", "api_key ", "secret", "bearer 1a", "?sig=%2B"),
    *("_auth" + "Token=", "1Q~", "A3-"),
    *("BEGIN ", "BEGIN PRIVATE", "END PRIVATE ", "re_aaaaaaaa_", "12345678:", "softlayer.com/", "[masked: "),
]


@pytest.mark.parametrize("end", ["", "!" * 20])
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_is_searched_in_linear_time(piece: str, end: str) -> None:
    """A text of 100,000 characters that repeats the beginning of a format takes a fraction of a second."""
    text = (piece * 100_000)[:100_000] + end
    before = time.process_time()
    spans = list(secrets.find(text))
    assert time.process_time() - before < 1
    assert len(spans) < len(text)


def read_all_bytes(project: Project) -> bytes:
    """Return the bytes of every file of a project's ``.claude``."""
    return b"\0".join(path.read_bytes() for path in sorted(project.claude.rglob("*")) if path.is_file())


@pytest.mark.parametrize("rater", ["reflector", "agent", "tallybook"])
def test_a_models_text_is_masked_before_it_is_written(here: Project, rater: str) -> None:
    """No file of the project holds the secret, the playbook has the mask, and a note reports it."""
    payload = {
        "new_key_points": ["plain", f"Export {GITHUB.text} and {STRIPE.text}"],
        "evaluations": [{"name": GITHUB.text, "rating": "helpful"}, {"name": "kpt_001", "rating": STRIPE.text}],
        STRIPE.text: {"more": [GITHUB.text, 7, None]},
    }
    outcome = commands.record(here, payload, {"rater": rater})
    assert not any(example.secret.encode() in read_all_bytes(here) for example in (GITHUB, STRIPE))
    texts = [point["text"] for point in commands.show(here)["key_points"]]
    assert ["plain", f"Export {GITHUB.masked} and {STRIPE.masked}"] == texts
    assert [
        "new_key_points[1]: 2 secrets were masked (GitHub Token, Stripe Access Key)",
        "evaluations[0]: a secret was masked (GitHub Token)",
        "evaluations[1]: a secret was masked (Stripe Access Key)",
        "payload: 2 secrets were masked (Stripe Access Key, GitHub Token)",
    ] == list(outcome.notes)


def test_a_save_by_old_code_is_screened_and_keeps_its_names(here: Project) -> None:
    """An update by the old functions is masked on its way to the ledger, and rated by its name afterwards."""
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(new=[f"Use {GITHUB.text}"]))
    compat.save_playbook(playbook)
    compat.update_playbook_data(playbook, extraction(("kpt_001", "helpful")))
    compat.save_playbook(playbook)
    (point,) = commands.show(here)["key_points"]
    assert ("kpt_001", f"Use {GITHUB.masked}", 1) == (point["name"], point["text"], point["helpful"])
    assert GITHUB.secret.encode() not in read_all_bytes(here)


def test_a_spooled_payload_is_masked(here: Project) -> None:
    """A payload that could not be recorded at once is in its file without the secret, and is noted."""
    commands.add(here, "Use types", {"rater": "human"})
    with hold_ledger_lock(here):
        outcome = commands.record(here, extraction(new=[GITHUB.text]), {"rater": "reflector"})
    assert (True, ("new_key_points[0]: a secret was masked (GitHub Token)",)) == (outcome.spooled, outcome.notes)
    assert GITHUB.secret.encode() not in read_all_bytes(here)
    assert b"[masked: GitHub Token]" in read_all_bytes(here)


def test_a_payload_too_deep_to_search_is_refused() -> None:
    """A program's payload that no JSON reader accepts is bad input, not a crash."""
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(BadInputError, match="nested too deeply"):
        secrets.mask_extraction({"new_key_points": [deep]}, [])
    assert "no object" == secrets.mask_extraction("no object", [])
