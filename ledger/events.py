"""The event kinds, and which of them make entries.

The classes in ``ledger/kinds`` are the schema of the ledger: one frozen class per kind. Its fields, in their order,
are the fields of the line's ``body``. Fields declared with ``FREE_TEXT`` hold text that a person or a model wrote; they
are written to the line's free section and are None once they were redacted.

To add a kind, follow "An event kind" in CONTRIBUTING.md: besides its class it needs a golden line and a summary.
"""

from __future__ import annotations

from typing import Final

# All names of these modules belong to the vocabulary, so they are not listed once more here.
from tallybook.ledger.kinds.fields import *
from tallybook.ledger.kinds.limits import *
from tallybook.ledger.kinds.playbook import *
from tallybook.ledger.kinds.sessions import *
from tallybook.ledger.kinds.sharing import *

MAKERS: Final = (PointAdded, PointSeeded, PointEdited, PointMatched)
"""Classes of the events that make an entry; a manual edit only where its writer had no entry of that name."""
TEXT_GIVERS: Final = (*MAKERS, PointReworded)
"""Classes of the events that give an entry its text."""
