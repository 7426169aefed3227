"""The playbook as bytes and as prompt text: pure, the same on every machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ledger.events import KeyPoint
    from projections.playbook import Playbook

STAMP = "ledger"
PLACEHOLDER = "{key_points}"
# Everything that Python, an editor or a model may take for the end of a line.
_LINE_ENDS = dict.fromkeys(map(ord, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")


def entry(point: KeyPoint) -> dict[str, Any]:
    """Return an entry with exactly the four keys of the specification (REQ-SCORE-001)."""
    return {"name": point.name, "text": point.text, "helpful": point.helpful, "harmful": point.harmful}


def playbook_dict(playbook: Playbook) -> dict[str, Any]:
    """Return the playbook in the specification's format, without the ledger's own stamp."""
    return {
        "version": None,
        "last_updated": playbook.last_updated,
        # A version that it brought stands in its place.
        **playbook.top,
        "key_points": [entry(point) for point in playbook.points.values()],
    }


def stamp_text(stamp: tuple[int, str]) -> str:
    """Return the stamp of a rendering, ``SEQ:CHAIN`` of the last playbook event in it."""
    return f"{stamp[0]}:{stamp[1]}"


def read_stamp(text: str | None) -> tuple[int, str] | None:
    """Return the moment that a stamp names, None where it is none."""
    seq, _, chain = (text or "").partition(":")
    return (int(seq), chain) if seq.isascii() and seq.isdigit() and len(seq) < 20 and chain else None  # noqa: PLR2004


def playbook_bytes(playbook: Playbook) -> bytes:
    """Return the bytes of ``playbook.json``, stamped with the last playbook event in it."""
    document = playbook_dict(playbook) | {STAMP: stamp_text(playbook.stamp)}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def one_line(text: str) -> str:
    """Return a text as one line, so that no key point can forge another's line."""
    return text.translate(_LINE_ENDS)


def prompt(key_points: Iterable[Mapping[str, Any]], template: str) -> str:
    """Return the template with the entries in the place of ``{key_points}`` (REQ-SCORE-003).

    Only that placeholder is replaced, so braces in a template or a text are harmless. No entries: an empty string.
    """
    lines = [
        f"[{one_line(kp['name'])}] helpful={kp['helpful']} harmful={kp['harmful']} :: {one_line(kp['text'])}"
        for kp in key_points
    ]
    return template.replace(PLACEHOLDER, "\n".join(lines)) if lines else ""
