"""The draw of lift: the entries that are withheld from a lineage, drawn once. Standard library only.

A lineage is a session with its resumes, forks, compactions and subagents. Its draw is a function of a secret, so that
every hook of it draws the same. Each question has a secret in the user's own folder: questions of other users withhold
nothing here.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
import os

from tallybook.ledger.errors import TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, loads
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.projections.playbook.inject import Draw
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import ProjectPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.surfaces.workspace.project import AnyProject

QUESTION = "question"
"""Marker that has the open question with the pinned entries, or that none is open, and as of which event that is so."""
LINEAGE = "lineage-"
"""Prefix of the marker that says to which lineage a session belongs, and for which question that was drawn."""
FEWEST_ENTRIES = 5
"""Of a smaller playbook nothing is withheld."""
SECRETS = "tallybook-lift"
"""Folder next to the user's own settings, with a file for each ledger."""
SECRET_BYTES = 32
_CHANGING = {"point.pinned", "point.unpinned", "events.voided", "lift.asked", "lift.stopped", "book.taken"}
"""The kinds of events that change which question is open, or what is pinned."""
# A float holds so many bits exactly.
_BITS = 53
_FAULTS = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, TallybookError)


class OpenQuestion(NamedTuple):
    """The open question, as hooks read it.

    Attributes:
        id: Id of the event that asked.
        about: ``playbook``, ``new`` or ``names``.
        names: The entries that it is about; empty for ``playbook``.
        pinned: The entries that are never withheld.
    """

    id: str
    about: str
    names: tuple[str, ...]
    pinned: tuple[str, ...]

    def may_hold(self, name: str) -> bool:
        """Return whether a draw for it may withhold an entry."""
        # People pin what guards against damage, so no draw withholds it.
        return name not in self.pinned and (self.about == "playbook" or name in self.names)


def begin_lineage(project: AnyProject, session: str, probability: float) -> None:
    """Note that a session begins a lineage under the open question, and with which probability units are withheld.

    What began before the question does not count, so a lineage without this note is never drawn for.
    """
    question, path = read_question(project), lineage_file(project, session)
    if question is not None and question.id in read_secrets(project) and not os.path.exists(path):
        lineage = {"id": session, "question": question.id, "probability": probability}
        ledger_access.write_marker(path, dumps(lineage))


def draw(project: AnyProject, session: str, selected: Sequence[str], entries: int, hold: float) -> Draw:
    """Return what is withheld of the selected entries; nothing where the session's lineage is not drawn for.

    Args:
        project: The project.
        session: The session; empty where it is unknown.
        selected: The names of the entries that fit, in order.
        entries: How many entries the playbook has.
        hold: The share that the settings say; with 0 nothing is withheld.
    """
    # Withholding is off by default, and then no file is read for it.
    question = read_question(project) if session and hold and entries >= FEWEST_ENTRIES else None
    if question is None:
        return Draw()
    lineage, asked, probability = "", "", 0.0
    with suppress(*_FAULTS):
        fields = loads(ledger_access.read_marker(lineage_file(project, session)))
        lineage, asked, probability = str(fields["id"]), fields["question"], float(fields["probability"])
    secret = read_secrets(project).get(question.id)
    # A clone has no secret, and a lineage from before the question does not count.
    if secret is None or asked != question.id:
        return Draw()
    members = list(filter(question.may_hold, selected))
    # One draw decides about a whole playbook: drawn one by one, ten entries would hardly ever be withheld together.
    unit_of = {name: name if question.about == "names" else question.about for name in members}
    units = tuple(dict.fromkeys(unit_of.values()))
    if not units:
        return Draw()
    held = {unit for unit in units if is_held(secret, question.id, lineage, unit, probability)}
    names = tuple(name for name in members if unit_of[name] in held)
    return Draw(names, question.id, lineage, units, probability)


def is_held(secret: bytes, question: str, lineage: str, unit: str, probability: float) -> bool:
    """Say whether a unit is withheld from a lineage: the same whenever it is asked."""
    # It loads OpenSSL, and most sessions are not drawn for.
    import hmac

    digest = hmac.digest(secret, dumps([question, lineage, unit]).encode("utf-8", "surrogatepass"), "sha256")
    drawn = (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)
    return drawn < probability


def secrets_file(project: AnyProject) -> str:
    """Return the file in the user's configuration folder that has the secrets of a project's draws."""
    return os.path.join(os.path.dirname(settings.users_file()), SECRETS, ledger_access.users_file_name(project))


def read_secrets(project: AnyProject) -> dict[str, bytes]:
    """Return the secret of each question that this user asked here, by the id of its event."""
    with suppress(*_FAULTS):
        fields = loads(disk.read_file(secrets_file(project)).decode("utf-8"))
        return {question: bytes.fromhex(digits) for question, digits in fields.items()}
    return {}


def save_secret(project: AnyProject, question: str, secret: bytes) -> None:
    """Add the secret of a question, for this user's eyes alone.

    Raises:
        TallybookError: The disk refuses.
    """
    path = secrets_file(project)
    disk.make_folder(os.path.dirname(path))
    # Earlier secrets stay: verify repeats their draws.
    known = {**read_secrets(project), question: secret}
    text = dumps({id_: key.hex() for id_, key in known.items()})
    disk.replace_file(path, text.encode(), private=True)


def read_question(project: AnyProject) -> OpenQuestion | None:
    """Return the open question of this user, None without one.

    Its marker is made anew where it is lost, or where the ledger has events since that change what it says.
    """
    with suppress(*_FAULTS):
        marker = loads(ledger_access.read_marker(ledger_access.marker_file(project, QUESTION)))
        seq, chain = marker["as_of"]
        if ledger_access.is_current(project, seq, chain, _CHANGING):
            about = marker["question"]
            return about and OpenQuestion(str(about[0]), str(about[1]), tuple(about[2]), tuple(about[3]))
    # Without a secret nothing is withheld, and few users have one.
    return save_question(project) if read_secrets(project) else None


def save_question(project: AnyProject) -> OpenQuestion | None:
    """Write the marker of the open question, or that none is open, from the ledger; return the question."""
    ledger_access.load_packages()
    from tallybook.ledger.codec import decode
    from tallybook.ledger.events import KIND_OF, EventsVoided, LiftAsked, LiftStopped
    from tallybook.ledger.scan import bytes_of
    from tallybook.projections.playbook.fold import history
    from tallybook.projections.surfaces.history import reading
    from tallybook.projections.surfaces.workspace import personal

    asked, question = None, None
    with suppress(*_FAULTS):
        whole = personal.as_project(project) if isinstance(project, ProjectPaths) else project
        # The head comes first: what is appended meanwhile is looked at by the next reader.
        head = JsonlLog(project.ledger).read_head()
        log = reading.open_log(whole)
        kinds = [bytes_of("kind", KIND_OF[kind]) for kind in (LiftAsked, LiftStopped, EventsVoided)]
        batches = history(lambda: decode(reading.search(log, kinds)))
        for record in chain.from_iterable(batch.records for batch in batches):
            if isinstance(record.event, LiftAsked):
                asked = record.id, record.event
            elif isinstance(record.event, LiftStopped) and asked and record.event.id == asked[0]:
                asked = None
        if asked:
            id_, event = asked
            pinned = reading.current(log).pinned
            question = OpenQuestion(id_, event.question, event.names, tuple(sorted(pinned)))
        content = dumps({"question": question, "as_of": head and [head.position.seq, head.position.chain]})
        ledger_access.write_marker(ledger_access.marker_file(project, QUESTION), content)
    return question


def lineage_file(project: AnyProject, session: str) -> str:
    """Return the marker of a session's lineage."""
    return ledger_access.marker_file(project, LINEAGE, session)
