"""The Python library: open a project's ledger, record, and read it. README.md of this folder is its page.

Every hook imports this package, so it loads nothing by itself: a name is loaded from its module when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.api import Entry as Entry
    from tallybook.api import Ledger as Ledger
    from tallybook.api import RatingWord as RatingWord
    from tallybook.api import RecordedEvent as RecordedEvent
    from tallybook.api import open as open  # noqa: A004 - as in `dbm.open`
    from tallybook.ledger.errors import BadInputError as BadInputError
    from tallybook.ledger.errors import CannotWriteError as CannotWriteError
    from tallybook.ledger.errors import DamagedLedgerError as DamagedLedgerError
    from tallybook.ledger.errors import LockHeldError as LockHeldError
    from tallybook.ledger.errors import NewerLedgerError as NewerLedgerError
    from tallybook.ledger.errors import NothingToDoError as NothingToDoError
    from tallybook.ledger.errors import OutcomeUnknownError as OutcomeUnknownError
    from tallybook.ledger.errors import TallybookError as TallybookError
    from tallybook.ledger.errors import UnknownEntryError as UnknownEntryError
    from tallybook.ledger.records import Author as Author
    from tallybook.ledger.records import Batch as Batch
    from tallybook.ledger.storage.redacted_digests import RedactedTextError as RedactedTextError
    from tallybook.projections.playbook.fold import State as State
    from tallybook.projections.playbook.fold import View as View
    from tallybook.projections.surfaces.history.stories import AmbiguousEntryError as AmbiguousEntryError
    from tallybook.projections.surfaces.writing.curation import ProposedError as ProposedError
    from tallybook.projections.surfaces.writing.curation import UndoResult as UndoResult
    from tallybook.projections.surfaces.writing.record import Outcome as Outcome

_MODULES = {
    "tallybook.api": ("Entry", "Ledger", "RatingWord", "RecordedEvent", "open"),
    "tallybook.ledger.errors": (
        "BadInputError",
        "CannotWriteError",
        "DamagedLedgerError",
        "LockHeldError",
        "NewerLedgerError",
        "NothingToDoError",
        "OutcomeUnknownError",
        "TallybookError",
        "UnknownEntryError",
    ),
    "tallybook.ledger.records": ("Author", "Batch"),
    "tallybook.ledger.storage.redacted_digests": ("RedactedTextError",),
    "tallybook.projections.playbook.fold": ("State", "View"),
    "tallybook.projections.surfaces.history.stories": ("AmbiguousEntryError",),
    "tallybook.projections.surfaces.writing.curation": ("ProposedError", "UndoResult"),
    "tallybook.projections.surfaces.writing.record": ("Outcome",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:
    # A type checker goes by the imports above; this would make every name known to it.
    def __getattr__(name: str) -> object:
        """Return a name of the library, loaded from its module."""
        if name not in _HOMES:
            raise AttributeError(f"module 'tallybook' has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    """Return the names of the library."""
    return sorted({*globals(), *_HOMES})
