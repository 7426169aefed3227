"""Helpers of tests: legacy files and what is read from them."""

from __future__ import annotations

import json
from typing import Any

import attrs

from tallybook.ledger.decisions.legacy_import import LegacyFile, read_legacy


def read(*items: object, **top: object) -> LegacyFile:
    """Return the entries read from a playbook of these items."""
    return read_legacy(json.dumps({"key_points": items, **top}).encode())


def read_text(text: str) -> LegacyFile:
    """Return the entries read from a file with this text."""
    return read_legacy(text.encode())


def entries(legacy: LegacyFile) -> list[dict[str, Any]]:
    """Return the entries in the specification's format."""
    return [attrs.asdict(item.entry) for item in legacy.items]


def messages(legacy: LegacyFile) -> list[str]:
    """Return the problems as a person reads them."""
    return [str(problem) for problem in legacy.problems]
