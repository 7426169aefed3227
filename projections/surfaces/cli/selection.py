"""What sessions are given by other ways than hooks: the answer to a task, and a block in a file that agents read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
import os
from pathlib import Path
from typing import Any, Final

from tallybook.ledger import clock
from tallybook.ledger.errors import BadInputError, CannotWriteError, NothingToDoError, TallybookError
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.storage import disk
from tallybook.projections.history.votes import HUMAN
from tallybook.projections.playbook import inject
from tallybook.projections.playbook.render import playbook_dict
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.agents.table import Payload, find_agent
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.hooks import blocks, draws, injection, ledger_access
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project, find_paths
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.erasure import TextSearch
from tallybook.projections.surfaces.writing.requests import VOTES_FORM


def answer_task(project: Project, task: str | None, session: str | None = None) -> tuple[str, dict[str, Any]]:
    """Return what a session is given for its first prompt, or without a task at its start.

    A session is given no entry that a question of lift withholds from it. What an agent asks for is recorded as an
    injection, in the session if the agent says which it is; what a person asks for is not recorded.

    Returns:
        The text as the model reads it, empty where nothing is given; and ``{entries, left_out, chars, budget_chars}``:
        the entries in it in order, with a task each with the parts of its score, and how many were left out by cause.
    """
    chosen, running = settings.read(project), find_agent()
    # An agent is not given what is withheld from it under the name of another session.
    session = (running.session if running else "") or session or ""
    # The limits of Claude Code hold where it is not known who reads the answer.
    agent = table.AGENTS[running.agent if running and table.AGENTS[running.agent].max_size else table.CLAUDE]
    paths = find_paths(None, str(project.root))
    by_hook = Payload(injection.PROMPT, session, agent=running.agent if running else table.CLAUDE)
    entries = injection.select_offered(paths, ledger_access.entries_of(commands.show(project)), by_hook)
    template = injection.load_template(chosen, attended=not (running and table.is_unattended(by_hook)))
    selection = injection.select(entries, task, agent, chosen.budget_chars, template)
    # The selection comes first: an entry that filled the place of a withheld one would be measured by lift as well.
    drawn = draws.draw(project, session, inject.names_of(selection.chosen), len(inject.names_of(entries)), chosen.hold)
    if running and selection.chosen:
        # An answer does not wait for the ledger, nor for a sandbox that lets the agent write nothing.
        with suppress(TallybookError, OSError):
            injection.append(paths, by_hook, selection, drawn, f"playbook:{clock.new_id(clock.utc_now().unix_us)}")
    scores = {} if task is None else {entries[score.place]["name"]: score for score in inject.rank(entries, task)}
    given = []
    for entry in selection.chosen:
        row = {field: entry[field] for field in ("name", "text", "helpful", "harmful")}
        if (score := scores.get(row["name"])) is not None:
            words = {word: round(points, 4) for word, points in score.words.items()}
            row |= {"score": round(score.total, 4), "words": words, "proof": round(score.proof, 4)}
        given += [] if row["name"] in drawn.held else [row]
    # Of both playbooks.
    left_out = sum(map(Counter, selection.left_out.values()), Counter[str]())
    text, sizes = selection.text_without(drawn.held), {"budget_chars": chosen.budget_chars}
    return text, {"entries": given, "left_out": dict(left_out), "chars": len(text), **sizes}


def explain_score(entry: Mapping[str, Any]) -> str:
    """Return the score of an entry for a task as the sum that it is."""
    # A score adds its parts, because a person can check a sum in one line.
    words = [f"{word} {points:.2f}" for word, points in entry["words"].items()]
    counts = f"ratings {entry['proof']:.2f} ({entry['helpful']} helpful, {entry['harmful']} harmful)"
    return f"{entry['score']:.2f} = {' + '.join([*words, counts])}"


# A block in a file that agents read

# Elsewhere, 5 KB at the top of such a file were removed as noise.
MAX_CHARS: Final = 2_000
"""Most characters of a block, its markers and its sentence included."""
# In a published trial, agents removed five of eight blocks without such a sentence and committed none; with it,
# they removed none and committed seven.
# It is visible text, because a comment never reaches the model.
SENTENCE: Final = (
    "Tallybook keeps these lessons here on purpose: `tallybook export agents-md` writes them. "
    "Leave them as they are, and commit them with this file. "
    "Where one shapes your work, name it in square brackets in that sentence."
)
_OWN: Final = b"`tallybook export agents-md`"
"""What every version of the sentence has."""
# The rules of Cursor are a file of our own, so that they need neither markers nor a merge.
_HEAD: Final = ("---", "alwaysApply: true", "---")
_IMPORTERS: Final = ("CLAUDE.md", "GEMINI.md")
_WRITABLE: Final = 0o222
_COMMENTS: Final = ("<!--", "-->")


def export(project: Project, name: str) -> dict[str, Any]:
    """Write the entries that a person typed, accepted or pinned into a file that agents read.

    Returns:
        ``{file, changed, names, left_out}``: the file as in ``blocks.FILES``, whether it was written, the entries in
        it, and name → why an entry is not in it.

    Raises:
        BadInputError: Agents read no such file, it cannot be changed, or an open question withholds an entry.
        NothingToDoError: There is no such entry, and no block.
    """
    # A manual edit is a person's, too.
    record.write(project, [])
    name = _target(project, name)
    data, (entries, left_out) = _read(project, name), _choose(project, name)
    question, names = draws.read_question(project), [row["name"] for row in entries]
    # What an open question of lift withholds from some sessions is not given to every one.
    held = next(filter(question.may_hold, names), "") if question is not None else ""
    if held:
        what = f"an open question of lift withholds {held} from some sessions"
        raise BadInputError("export agents-md", what, "`tallybook lift stop` closes it; nothing was written")
    new = _with_block(name, data, entries)
    if not (entries or _has_block(name, data)):
        raise NothingToDoError("the playbook", "has no entry that a person typed, accepted or pinned", "pin one")
    if new != data:
        path = Path(blocks.place_of(blocks.folder_of(project), name))
        if data and not path.stat().st_mode & _WRITABLE:
            raise CannotWriteError(path, "is read-only", "make it writable; nothing was written")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not disk.replace_file(path, new, may_replace=lambda: _read(project, name) == data):
            raise CannotWriteError(path, "was changed meanwhile", "nothing was written; try again")
    return {"file": name, "changed": new != data, "names": names, "left_out": left_out}


def find_old_blocks(project: Project) -> Iterator[tuple[str, str, str]]:
    """Yield the files whose block is not what the playbook says, each with what is wrong and what to do first."""
    for name in blocks.FILES:
        data, again = _peek(project, name), f"`tallybook export agents-md {name}`"
        try:
            if _has_block(name, data) and _with_block(name, data, _choose(project, name)[0]) != data:
                yield name, "its entries are not those of the playbook", again
        except BadInputError as error:
            # An export refuses such a file until a person has mended it.
            what, _, hint = str(error).removeprefix(f"{name}: ").removesuffix("; nothing was written").partition("; ")
            yield name, what, f"{hint}, then run {again}"


def find_blocks(project: Project, texts: Iterable[str]) -> list[str]:
    """Return the files whose block holds one of these texts of entries, or what looks the same."""
    wanted = TextSearch([blocks.line({"text": text, "name": ""}).removesuffix(" []") for text in texts])
    found = (blocks.find(project, [name]) for name in blocks.FILES)
    return sorted({block.name for block in found if block and any(map(wanted.is_in, block.lines))})


def _choose(project: Project, name: str) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Return the entries for a file, and why others are not in it: as many as fit, and none past its last day.

    Pinned ones are chosen first, then by name.
    """
    state, log = commands.playbook(project).state, reading.open_log(project)
    votes = reading.fold_view(VOTES_FORM, log)
    rows = inject.leave_out_expired(ledger_access.entries_of(playbook_dict(state)), clock.utc_now().at[:10])
    # Files that agents read have what a person typed or accepted: who accepts a lesson saw it whole.
    approved = {name for name in state.entries if name in state.pinned or votes.maker_of(name).rater == HUMAN}
    rows = [row for row in rows if row["name"] in approved and row["text"] != REDACTED]
    room = MAX_CHARS - sum(len(line) + 1 for line in _lines(name, ()))
    chosen, left_out = [], {}
    for row in sorted(rows, key=lambda row: (row["name"] not in state.pinned, row["name"])):
        size = len(blocks.line(row)) + 1
        # The markers are comments: between a lost end and a new beginning, other tools ate the text.
        if any(mark in row["text"] for mark in _COMMENTS):
            left_out[row["name"]] = "its text begins or ends a comment"
        elif size > room:
            left_out[row["name"]] = f"a block has at most {MAX_CHARS:,} characters"
        else:
            room -= size
            chosen.append(row)
    # By name, and without counts or dates: blocks with statistics changed at each run and broke a checkout.
    return sorted(chosen, key=lambda row: str(row["name"])), left_out


def _target(project: Project, given: str) -> str:
    """Return the file to write: the one that was named, or AGENTS.md where it imports that and has no block."""
    name = os.path.normpath(given).replace(os.sep, "/")
    if name not in blocks.FILES:
        what = f"is not a file in {blocks.folder_of(project)} that agents read"
        raise BadInputError(given, what, f"use {', '.join(blocks.FILES)}")
    for importer in _IMPORTERS if name == blocks.AGENTS_MD else {name}.intersection(_IMPORTERS):
        lines = _peek(project, importer).splitlines()
        span = blocks.find_span(importer, lines) if blocks.imports(lines) else None
        # A session reads both files, and would be given the entries twice.
        if span is not None and importer != name:
            what = f"has a block in lines {span[0] + 1} to {span[1] + 1}, and imports {name}"
            raise BadInputError(importer, what, "remove it there; nothing was written")
        if span is None and blocks.imports(lines):
            name = blocks.AGENTS_MD
    return name


def _read(project: Project, name: str) -> bytes:
    """Return the bytes of a file, none where there is no file."""
    try:
        data = disk.read_small(blocks.place_of(blocks.folder_of(project), name), blocks.MAX_FILE_BYTES)
        data.decode()
    except FileNotFoundError:
        return b""
    except UnicodeDecodeError as error:
        raise BadInputError(name, "is not UTF-8 text", "save it as UTF-8; nothing was written") from error
    except OSError as error:
        raise BadInputError(name, f"cannot be read: {disk.reason(error)}", "nothing was written") from error
    return data


def _peek(project: Project, name: str) -> bytes:
    """Return the same, none where no export could have written the file."""
    try:
        return _read(project, name)
    except TallybookError:
        return b""


def _has_block(name: str, data: bytes) -> bool:
    return _OWN in data if name == blocks.RULES else blocks.find_span(name, data.splitlines()) is not None


def _lines(name: str, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a block with these entries; a file of its own has a head in place of the markers."""
    lines = [SENTENCE, "", *map(blocks.line, entries)]
    return [*_HEAD, *lines] if name == blocks.RULES else [blocks.BEGIN.decode(), *lines, blocks.END.decode()]


def _with_block(name: str, data: bytes, entries: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the bytes of a file with a block of these entries: in place of the one that it has, else at its end."""
    feed = b"\r\n" if data.partition(b"\n")[0].endswith(b"\r") else b"\n"
    block = feed.join(line.encode() for line in _lines(name, entries))
    if name == blocks.RULES:
        if data and _OWN not in data:
            raise BadInputError(name, "was not written by Tallybook", "move it away; nothing was written")
        return block + feed
    span = blocks.find_span(name, data.splitlines())
    if span is None:
        gap = feed if data.endswith((b"\n", b"\r")) else 2 * feed
        return data + (gap if data else b"") + block + feed
    lines = data.splitlines(keepends=True)
    first, last = lines[span[0]].partition(blocks.BEGIN)[0], lines[span[1]].partition(blocks.END)[2]
    return b"".join((*lines[: span[0]], first, block, last, *lines[span[1] + 1 :]))
