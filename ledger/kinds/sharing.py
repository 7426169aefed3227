"""Events about a book that several machines share, and what landing in it makes of an event."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import FREE_TEXT, NAMES, NOT_NEGATIVE, Event

# ---- In the book ----


class BookOpened(Event, kind="book.opened"):
    """The first line of every book.

    Attributes:
        book: The book's own id, a UUIDv7.
        name: Its name, which keeps the projects of one engine apart.
        epoch: 1 at first; one higher each time that the book is begun anew on purpose.
        rules: Number of the rules by which the book is folded, from 1.
    """

    book: str
    name: str
    epoch: int = attrs.field(validator=NOT_NEGATIVE)
    rules: int = attrs.field(validator=NOT_NEGATIVE)


class BookRules(Event, kind="book.rules"):
    """From here on the book is folded by other rules; a program that does not know them stops here.

    Attributes:
        rules: Number of the rules.
    """

    rules: int = attrs.field(validator=NOT_NEGATIVE)


class BookBlock(Event, kind="book.block"):
    """Numbers of names that belong to the writer of this line, so that two machines never give an entry the same name.

    Attributes:
        first: The first number of the block, from 1.
        last: The last number of the block.
    """

    # Counted from the same last number, three quarters of the new entries had to be renamed.
    first: int = attrs.field(validator=NOT_NEGATIVE)
    last: int = attrs.field(validator=NOT_NEGATIVE)


class PointMatched(Event, kind="point.matched"):
    """An added or imported entry whose text another entry has already; its later ratings count for that one.

    If the other entry was undone, this event adds the entry itself.

    Attributes:
        name: The name that the entry would have; it is not used again.
        to: The entry that has the text.
        helpful: Count of helpful ratings that it brings with it, 0 or more.
        harmful: Count of harmful ratings that it brings with it, 0 or more.
        text: The text.
    """

    name: str
    # Only the very same text joins two entries: one word can make an opposite.
    to: str
    helpful: int = attrs.field(validator=NOT_NEGATIVE)
    harmful: int = attrs.field(validator=NOT_NEGATIVE)
    text: str | None = attrs.field(metadata=FREE_TEXT)


class EventRepeated(Event, kind="event.repeated"):
    """An event of a delivery that the book has already from another machine; it has no effect.

    Attributes:
        kind: The kind that the event has in its machine's own ledger.
    """

    kind: str


class RedactionLinked(Event, kind="redaction.linked"):
    """Events whose text was equal before it was redacted; landing takes their texts as equal.

    Attributes:
        ids: Ids of the events.
    """

    ids: tuple[str, ...] = attrs.field(validator=NAMES)


# ---- In a machine's own ledger ----


class BookTaken(Event, kind="book.taken"):
    """From here on this machine's playbook contains the book up to an event: the machine's frontier.

    Attributes:
        seq: The last event number of the book that is contained.
        chain: The chain value of the book there.
        upto: The own batches up to this event number are in the book.
        names: Own names of entries that have another name in the book.
        new_names: Their names in the book, in the same order.
    """

    seq: int = attrs.field(validator=NOT_NEGATIVE)
    chain: str
    upto: int = attrs.field(validator=NOT_NEGATIVE)
    names: tuple[str, ...] = attrs.field(validator=NAMES)
    new_names: tuple[str, ...] = attrs.field(validator=NAMES)


class NamesMeant(Event, kind="names.meant"):
    """The names in this batch, in a project that shares a book, and the entries that they mean.

    A name of a pending entry can mean another one once the book has moved on, so the ids decide.

    Attributes:
        names: The names.
        ids: Ids of the events that made the entries, in the same order.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)
    ids: tuple[str, ...] = attrs.field(validator=NAMES)
