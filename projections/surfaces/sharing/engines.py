"""The engine of a book, opened as the user's settings say; client libraries are loaded only here."""

from __future__ import annotations

from importlib import import_module
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing.engines.engine import Engine
from tallybook.ledger.sharing.engines.store import MissingLibraryError
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces.workspace.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.sharing.engines.store import Store
    from tallybook.projections.surfaces.sharing.membership import Membership

LIMIT_S: Final = 60.0
"""How many seconds an engine may take to answer, unless a shorter limit is given or it has a shorter one of its own."""
_POSTGRES_LIMIT_S: Final = 30.0
_LEAST_LIMIT_S: Final = 2.0
CACHE: Final = "books"
"""Folder in the user's cache folder for what engines keep there."""


def _load(name: str) -> Any:
    """Return a module of the engines, loaded only now: its client library may not be installed."""
    return import_module(f"tallybook.ledger.sharing.engines.{name}")


def _git(part: Membership, ledger: Path, limit_s: float) -> Store:
    cache = cache_of(part.address, part.name, ledger)
    store: Store = _load("git").GitStore(part.address, part.name, cache, login=part.login, limit_s=limit_s)
    return store


def cache_of(address: str, name: str, ledger: Path) -> str | None:
    """Return git's repository for a book in the user's cache folder; None where there is no such folder that is safe.

    One in the project could be somebody else's, with a configuration that runs a command.
    """
    base = caches.user_folder()
    # A folder that others may write to could bring a configuration as well.
    if not base or caches.find_fault(base, os.path.realpath(ledger)):
        return None
    return str(Path(base, CACHE, caches.path_digest(f"{address}\n{name}")))


def _postgres(part: Membership, _: Path, limit_s: float) -> Store:
    limit_s = min(limit_s, _POSTGRES_LIMIT_S)
    store: Store = _load("postgres").PostgresStore(part.address, part.name, limit_s, login=part.login)
    return store


def _objects(part: Membership, _: Path, limit_s: float) -> Store:
    store: Store = _load("objects").ObjectStore(part.address, part.name, limit_s, login=part.login)
    return store


ENGINES: Final[dict[str, Callable[[Membership, Path, float], Store]]] = {
    "git": _git,
    "postgres": _postgres,
    "objects": _objects,
}
"""Name of an engine → the function that opens its store: the part in a book, folder of the ledger, limit."""

LIBRARIES: Final = {"postgres": "psycopg[binary]", "objects": "obstore"}
"""Name of an engine → the package that installs its client library."""


def open_engine(part: Membership, ledger: Path, *, limit_s: float = LIMIT_S) -> Engine:
    """Return the engine of a book for a ledger, with a limit for each of its answers; nothing is asked of it yet.

    Raises:
        BadInputError: There is no such engine, or it does not take the address.
        MissingLibraryError: Its client library is not installed.
    """
    if part.engine not in ENGINES:
        raise BadInputError(part.engine, "is not an engine", f"use {', '.join(ENGINES)}")
    try:
        store = ENGINES[part.engine](part, ledger, min(max(limit_s, _LEAST_LIMIT_S), LIMIT_S))
    except ImportError as error:
        package = LIBRARIES[part.engine]
        raise MissingLibraryError(part.engine, package, install_command(package)) from error
    return Engine(store, read_only=part.read_only)
