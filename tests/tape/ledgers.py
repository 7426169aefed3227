"""How the ledgers of the tape were made: for each its name, and the commands that led to it.

The ledgers themselves lie next to this file, and are not made anew when the code changes: a later version has to read
the bytes of an earlier one. `TAPE=ledgers` before pytest makes those that have no file yet.
"""

from __future__ import annotations

import json
import shlex
from typing import NamedTuple

DAY_S = 24 * 3600
BEGIN_US = 1_767_264_000_000_000
"""1 January 2026, noon: the moment of the first command. Each later one comes an hour after the one before it."""
TAPE_US = BEGIN_US + 90 * DAY_S * 1_000_000
"""When the verbs of the tape run."""


class Do(NamedTuple):
    """A step towards a ledger: a command with its standard input, or a change of a file.

    Attributes:
        words: The words of the command line; none where only the file is changed.
        stdin: The text on its standard input.
        file: The file that is changed instead, in the project's folder.
        change: (old, new) bytes: the first occurrence is replaced; an empty old text appends, None removes the file.
        hours: How long after the step before it this one comes.
    """

    words: tuple[str, ...] = ()
    stdin: str = ""
    file: str = ""
    change: tuple[bytes, bytes] | None = None
    hours: int = 1


def do(line: str, stdin: str = "", hours: int = 1) -> Do:
    """Return the step of a command as it is typed."""
    return Do(tuple(shlex.split(line)), stdin, hours=hours)


EVENTS = ".claude/ledger/events.jsonl"
PLAYBOOK = ".claude/playbook.json"
ADD = [
    do("add 'Quote ids as strings.'"),
    do("add 'Run the tests before every commit.'"),
    do("add 'Delete the build cache when a test fails.'"),
]
RATED = [
    *ADD,
    do("rate kpt_001 helpful --session s1"),
    do("rate kpt_001 kpt_002 helpful --session s2"),
    do("rate kpt_003 harmful --reason 'it hid a real failure' --session s2"),
    do("rate kpt_002 neutral --session s3"),
]
PRUNED = [
    *RATED,
    do("rate kpt_003 harmful --session s4"),
    do("record - --session s5", '{"new_key_points": [], "evaluations": [{"name": "kpt_003", "rating": "harmful"}]}'),
]
PINNED = [*RATED, do("pin kpt_003"), *[do("rate kpt_003 harmful")] * 3]
HOOK = '{"hook_event_name":"%s","session_id":"%s","cwd":"PROJECT","source":"startup"%s}'
START = do("hook", HOOK % ("SessionStart", "s7", ""))
STOP = do("hook", HOOK % ("Stop", "s7", ',"last_assistant_message":"I quoted them, as [kpt_001] says."'))
END = do("hook", HOOK % ("SessionEnd", "s7", ',"reason":"exit"'))
LEGACY = """{"key_points": [{"name": "kpt_001", "text": "Use type hints.", "helpful": 3, "harmful": 1},
 {"name": "kpt_002", "text": "Retry every request.", "helpful": 0, "harmful": 7}]}"""
ODD = """{"version": "1.0", "key_points": ["plain", {"name": "kpt_002", "text": "odd", "helpful": "3", "harmful": null},
 {"name": "kpt_002", "text": "twice"}, 17, {"text": ""}, {"name": "kpt_009", "text": "scored", "score": -2}],
 "mine": 1}"""
LATER = """{"version": "2.0", "sections": {"PATTERNS": [{"name": "pat-001", "text": "Prefer plain functions.",
 "helpful": 2, "harmful": 0}], "OTHERS": [{"name": "oth-001", "text": "Ask first.", "helpful": 0, "harmful": 1}]}}"""
OPERATIONS = """{"new_key_points": [], "evaluations": [], "operations": [
 {"type": "DELETE", "target_id": "kpt_003", "reason": "nobody needs it"},
 {"type": "MERGE", "source_ids": ["kpt_001", "kpt_002"], "text": "Quote ids, run tests.", "reason": "one habit"},
 {"type": "UPDATE", "target_id": "kpt_002", "text": "Run the quick tests before every commit.", "reason": "faster"}]}"""
PROPOSED = [*RATED, do("record - --rater reflector --session s6", OPERATIONS)]


def adopt(playbook: str) -> list[Do]:
    """Return the steps that import a playbook file."""
    return [Do(file=PLAYBOOK, change=(b"", playbook.encode())), do("import .claude/playbook.json")]


def redact(text: str) -> Do:
    """Return the step that redacts a text which one event holds."""
    return do("redact --text - --reason 'a name' --yes --expect 1", text)


def metrics(session: str, startup: int, hours: int = 24) -> Do:
    """Return the step that records measurements of a component."""
    return do(f"score record --component ac01 --session {session} startup_ms={startup}", hours=hours)


MEASURED = [metrics("m1", 5000), metrics("m2", 5200), metrics("m3", 7400)]

LEDGERS: dict[str, list[Do]] = {
    "empty": [],
    "one": ADD[:1],
    "three": ADD,
    "rated": RATED,
    "pruned": PRUNED,
    "restored": [*PRUNED, do("restore kpt_003 --reason 'it was the test'")],
    "pinned": PINNED,
    "unpinned": [
        *RATED,
        do("pin kpt_003"),
        *[do("rate kpt_003 harmful")] * 3,
        do("pin --off kpt_003"),
        do("rate kpt_001 helpful"),
    ],
    "retired": [*RATED, do("retire kpt_002 --reason 'we have a hook for it'")],
    "reworded": [*RATED, do("reword kpt_002 'Run the quick tests before every commit.'")],
    "merged": [*RATED, do("merge kpt_001 kpt_002")],
    "moved": [*RATED, do("move kpt_001 kpt_002 patterns")],
    "undone": [*RATED, do("undo")],
    "undone-add": [*ADD, do("undo")],
    "undone-session": [*PRUNED, do("undo --of s4")],
    "undone-undo": [*PRUNED, do("undo --of s4"), do("undo 22")],
    "redacted-entry": [
        *RATED,
        redact("Delete the build cache when a test fails."),
    ],
    "redacted-reason": [*RATED, redact("it hid a real failure")],
    "seeded": [
        Do(file=PLAYBOOK, change=(b"", LEGACY.encode())),
        do("import .claude/playbook.json"),
        do("rate kpt_001 helpful"),
    ],
    "odd": [*adopt(ODD)],
    "later-format": [
        Do(file=PLAYBOOK, change=(b"", LATER.encode())),
        do("import .claude/playbook.json"),
        do("add 'Write it down.'"),
    ],
    "legacy-file": [Do(file=PLAYBOOK, change=(b"", LEGACY.encode()))],
    "proposals": PROPOSED,
    "proposals-decided": [*PROPOSED, do("proposals reject 18"), do("proposals accept 19")],
    "edited": [*RATED, Do(file=PLAYBOOK, change=(b"Quote ids as strings.", b"Quote ids as strings in JSON."))],
    "edited-recorded": [
        *RATED,
        Do(file=PLAYBOOK, change=(b"Quote ids as strings.", b"Quote ids as strings in JSON.")),
        do("add 'Write it down.'"),
    ],
    "no-playbook-file": [*RATED, Do(file=PLAYBOOK)],
    "broken-playbook-file": [*RATED, Do(file=PLAYBOOK, change=(b"{", b"(("))],
    "damaged": [*RATED, Do(file=EVENTS, change=(b"kpt_001", b"kpt_007"))],
    "torn": [*RATED, Do(file=EVENTS, change=(b"", b'{"seq":18,"id":"019b79'))],
    "sealed": [*RATED, Do(file=EVENTS, change=(b"", b'{"seq":18,"id":"019b79')), do("rate kpt_001 helpful")],
    "no-head": [*RATED, Do(file=".claude/ledger/head")],
    "scored": MEASURED,
    "scored-baseline": [*MEASURED, do("score baseline ac01 --value 60"), metrics("m4", 9000)],
    "session": [*RATED, START, STOP],
    "session-ended": [*RATED, START, STOP, END],
    "repeated": [*RATED, *[do("record - --key k1", '{"new_key_points": ["Once."], "evaluations": []}')] * 2],
    "spooled": [*RATED, Do(file=".claude/ledger/spool/README", change=(b"", b"not ours\n"))],
    "personal": [
        *ADD[:1],
        do("init --mine"),
        do("--mine add 'Answer in one paragraph.'"),
        do("--mine rate my_001 helpful"),
    ],
    "twelve": [do(f"add 'Rule {number} of twelve.'") for number in range(1, 13)],
}
"""The ledgers by name."""

RATINGS = [
    {"name": f"kpt_{number % 40 + 1:03d}", "rating": "harmful" if number % 5 == number % 40 % 5 == 0 else "helpful"}
    for number in range(495)
]
TEN_THOUSAND: list[Do] = [
    *[do(f"add 'Rule {number} of forty.'") for number in range(1, 41)],
    *[do(f"record - --session r{number}", json.dumps({"evaluations": RATINGS})) for number in range(20)],
]
"""A ledger too long to be stored: 10,001 events."""
