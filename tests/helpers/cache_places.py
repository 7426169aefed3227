"""The folder of a ledger's caches during the tests: in the cache folder of their home."""

from __future__ import annotations

from pathlib import Path

from tallybook.ledger.storage import caches


def caches_of(ledger: Path) -> Path:
    """Return the folder for the caches of a ledger, which need not exist.

    Raises:
        AssertionError: There is none, so that a test of its content would show nothing.
    """
    folder = caches.find_folder(ledger)
    if folder is None:
        raise AssertionError(f"{ledger} has no cache folder")
    return Path(folder)


def make_caches(ledger: Path) -> Path:
    """Create the folder for the caches of a ledger and return it."""
    folder = caches_of(ledger)
    caches.make_folder(folder, ledger)
    return folder
