"""The page of a project as an HTML file: template, styles, scripts, data, and a policy that allows nothing else."""

from __future__ import annotations

from base64 import b64encode
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from functools import cache
from hashlib import sha256
from heapq import merge
from importlib.metadata import version
from itertools import accumulate, dropwhile, takewhile
from operator import attrgetter
import os
from pathlib import Path
import re
from typing import TYPE_CHECKING, Any, Final
import zlib

import attrs

from tallybook.ledger.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import KIND_OF
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import RawBatch
from tallybook.ledger.names import find_name
from tallybook.ledger.records import Batch
from tallybook.ledger.sharing.numbers import BOOK, PENDING, PREFIX, format_shared_number
from tallybook.projections.history.entry_history import EntryStatuses, entries_view, explain
from tallybook.projections.playbook.entry import SPEC_POLICY
from tallybook.projections.playbook.fold import UNDOABLE, fold_history
from tallybook.projections.scores import summary
from tallybook.projections.scores.config import DASHBOARD, SESSION
from tallybook.projections.scores.scoring import Level, alerts, is_enough
from tallybook.projections.scores.view import OVERALL_ID, Scores
from tallybook.projections.surfaces.console.output import format_count, read_event_time
from tallybook.projections.surfaces.console.story_text import tell_story
from tallybook.projections.surfaces.history.moments import Moment
from tallybook.projections.surfaces.history.reading import current, has_book, open_log
from tallybook.projections.surfaces.history.shared_log import read_syncs, renumber
from tallybook.projections.surfaces.page.film import MAX_MOMENTS, STATUSES, Film, fold_film
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.configuration import state_of
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.curation import is_of_entry
from tallybook.projections.surfaces.writing.secrets import mask

if TYPE_CHECKING:
    from tallybook.ledger.log import Log
    from tallybook.projections.surfaces.history.shared_log import SharedLog


MARK: Final = b'<meta name="generator" content="tallybook page">'
"""What a page has among its first bytes, and other files have not."""

_HEAD_BYTES: Final = 4096
_BROWSER: Final = Path(__file__).with_name("browser")


@cache
def _parts() -> tuple[str, str, str]:
    """Return the template, the style and the script."""
    template, style, script = (
        "".join(path.read_text(encoding="utf-8") for path in sorted(_BROWSER.glob(pattern)))
        for pattern in ("page.html", "*.css", "*.js")
    )
    return template, style, f'"use strict";\n(() => {{\n{script}}})();\n'


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def security_policy(*, served: bool) -> str:
    """Return the content security policy: nothing but the style and the script of the page, by their hashes."""
    _, style, script = _parts()
    own = "; connect-src 'self'" if served else ""
    sources = f"script-src {_hash(script)}; style-src {_hash(style)}{own}"
    # Browsers apply default-src to neither of the last two.
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def assemble(meta: Mapping[str, Any], document: Mapping[str, Any], sections: str = "") -> bytes:
    """Return the file.

    Args:
        meta: What the script knows before it unpacks the document; ``served`` is whether a server sends the page.
        document: The history.
        sections: Markup that needs no script; empty for none.
    """
    template, style, script = _parts()
    policy = f'<meta http-equiv="Content-Security-Policy" content="{security_policy(served=meta["served"])}">'
    # A ``<`` in JSON would be able to end its element.
    text = dumps(meta).replace("<", "\\u003c")
    packed = b64encode(zlib.compress(dumps(document).encode("utf-8", "replace"))).decode("ascii")
    parts = {
        "policy": f"{MARK.decode()}\n{policy}",
        "style": f"<style>{style}</style>",
        "sections": sections,
        "data": (
            f'<script type="application/json" id="meta">{text}</script>\n'
            f'<script type="application/octet-stream" id="document">{packed}</script>'
        ),
        "script": f"<script>{script}</script>",
    }
    # In one pass, so that nothing in a part is taken for a mark.
    return re.sub("<!--([a-z]+)-->", lambda mark: parts[mark[1]], template).encode("utf-8", "replace")


def is_page(path: Path) -> bool:
    """Return whether a file is a page.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return MARK in file.read(_HEAD_BYTES)


MAX_FILES: Final = 50_000
"""Most files whose names are looked at: a search for pages must not take longer than the command that it serves."""


def find_pages(project: Project) -> list[Path]:
    """Return the pages in a project's folder, without hidden folders; in a large project those found first."""
    pages, seen = [], 0
    for folder, folders, names in os.walk(project.root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for path in (Path(folder, name) for name in names if name.lower().endswith((".html", ".htm"))):
            with suppress(OSError):
                if path.is_file() and not path.is_symlink() and is_page(path):
                    pages.append(path)
        seen += len(names)
        if seen > MAX_FILES:
            break
    return sorted(pages)


MAX_ROWS: Final = 20_000
"""Most events that all the stories together tell; the entries that changed last have theirs."""

MAX_STORIES: Final = 500
"""Most stories: each entry is compared with every name, to find the same guidance under other names."""


@attrs.frozen
class Choices:
    """What a page is asked to show.

    Attributes:
        moment: The moment at which it opens; None for the end.
        name: The entry that is selected; None for none.
        with_quotes: Whether reasons and notes are in it.
        with_texts: Whether texts, session ids, agents, models and machines are in it.
        served: Whether a server sends it.
    """

    moment: Moment | None = None
    name: str | None = None
    with_quotes: bool = False
    with_texts: bool = True
    served: bool = False


def read_end(log: Log) -> dict[str, Any]:
    """Return ``head``, the present end of a ledger, and ``redactions``, how many events redacted a text."""
    book = current(log)
    return {"head": f"{book.seq}:{book.chain}", "redactions": book.redactions}


def make(project: Project, choices: Choices) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of the page of a project, and what is in it: its ``meta``, as README.md has it.

    Raises:
        NothingToDoError: The ledger has no event.
        UnknownEntryError: No event names the entry.
    """
    log, moment = open_log(project), choices.moment
    now = log.now().at
    numbers: dict[int, tuple[str, str | None]] = {}
    # A commit's history may be another than the project's own.
    commit = moment if moment is not None and moment.commit else None
    # Before the history is read: a served page then loads again because of an event that comes meanwhile.
    end = read_end(log) if choices.served or (commit is None and has_book(log)) else {}

    def read() -> Iterator[Batch]:
        if commit is not None:
            return commit.history()
        return _number_history(log, numbers) if has_book(log) else decode(log.read())

    film = fold_film(read, MAX_MOMENTS)
    if not film.last:
        raise NothingToDoError("page", "the ledger has no event yet", "record one first")
    meta = _meta(film, project, choices, has_commands=commit is None) | {"made": now}
    if numbers:
        # The page's own numbers are 1, 2, 3 and so on.
        meta["labels"] = [[new, *names] for new, names in numbers.items()]
        meta["opens"]["event"] = film.last
    meta |= end
    agents = [", ".join(filter(None, names)) for _, *names in film.sessions.values()]
    quotes = [[field, mask(text)] for _, field, text in film.quotes] if choices.with_quotes else []
    content = {
        "film": film.part(with_texts=choices.with_texts),
        "sessions": {"ids": list(film.sessions), "agents": agents} if choices.with_texts else {},
        "stories": _stories_part(film, read, choices),
        "quotes": {"event": [seq for seq, _, _ in film.quotes], "quotes": quotes} if choices.with_quotes else None,
        "scores": None,
    }
    sections = ""
    try:
        content["scores"] = _scores_part(project, film, commit)
    except BadInputError:
        # Its own message has the path of the file.
        meta["warnings"].append("without scores: their configuration is invalid; run `tallybook score`")
    if commit is None:
        from tallybook.projections.surfaces.scores.lift import page_section

        # With scores that cannot be read nothing is known of lift either.
        with suppress(BadInputError):
            sections = page_section(project)
    return assemble(meta, content, sections), meta


def _number_history(log: SharedLog, numbers: dict[int, tuple[str, str | None]]) -> Iterator[Batch]:
    """Yield a shared history with the event numbers 1, 2, 3 and so on, which the columns of a page need.

    A batch that only the own ledger has follows the events of the book that were taken in before it, and pending
    batches come last.

    Args:
        log: The shared history.
        numbers: Takes the number of each batch's first event → how commands name it, and the moment with the playbook
            that the page shows there, where that is another: for a batch that only the own ledger has, because at its
            own number pending batches of that time count as well, and for a pending one from before the last sync,
            because the playbook had less of the book then.
    """
    syncs = read_syncs(log.own)

    def find_place(batch: RawBatch) -> tuple[int, bool]:
        if batch.last > BOOK:
            return batch.last, False
        past = bisect_right(syncs, batch.last, key=attrgetter("number"))
        return BOOK + (syncs[past - 1].taken if past else 0), True

    def is_own(batch: RawBatch) -> bool:
        return batch.last <= BOOK

    def batches() -> Iterator[RawBatch]:
        last = 0
        # A history has its own batches first; both parts are streamed.
        parts = takewhile(is_own, log.read()), dropwhile(is_own, log.read())
        for batch in merge(*parts, key=find_place):
            moment = f"{PREFIX}{find_place(batch)[0] - BOOK}" if is_own(batch) else None
            if syncs and PENDING < batch.last < PENDING + syncs[-1].number:
                moment = str(syncs[-1].number)
            numbers[last + 1] = str(format_shared_number(batch.first)), moment
            yield renumber(batch, range(last + 1, last + len(batch.lines) + 1))
            last += len(batch.lines)

    return decode(batches())


def _meta(film: Film, project: Project, choices: Choices, *, has_commands: bool) -> dict[str, Any]:
    """Return what the script knows before it unpacks the document."""
    numbers = film.names
    name = None if choices.name is None else find_name(choices.name, set(numbers))
    if choices.name is not None and name is None:
        raise UnknownEntryError(choices.name, None)
    warnings = [f"the texts of {format_count(film.redacted, 'event')} are redacted"] if film.redacted else []
    if film.base:
        older = format_count(len(film.lasts) - len(film.moment_authors), "older moment")
        shown = format_count(len(film.moment_authors), "moment")
        warnings.append(f"the page has the last {shown}; {older}, up to event {film.base}, are one snapshot")
    return {
        "tallybook": version("tallybook"),
        "project": project.root.name if choices.with_texts else "",
        "ledger": film.ledger,
        "head": f"{film.last}:{film.chain}",
        "served": choices.served,
        "texts": choices.with_texts,
        "quotes": choices.with_quotes,
        "warnings": warnings,
        "counts": {
            "events": film.last,
            "moments": len(film.lasts),
            "entries": len(film.book.entries),
            "names": len(numbers),
            "sessions": len(film.sessions),
        },
        "opens": {
            "event": film.last if choices.moment is None else choices.moment.seq,
            "entry": None if name is None else numbers[name],
        },
        "statuses": STATUSES,
        "rule": SPEC_POLICY.rule,
        # The commands read the project's ledger, and not the one of a commit.
        "commands": has_commands,
        "undo": {
            kind: "event" if is_of_entry(kind) else "batch"
            for kind in sorted(KIND_OF[event_class] for event_class in UNDOABLE)
        },
    }


# The scores, day by day under the axis of the slider


def _scores_part(project: Project, film: Film, moment: Moment | None) -> dict[str, Any] | None:
    """Return the scores of a project, None where nothing was measured or scoring is off.

    Args:
        project: The project.
        film: Its film.
        moment: The moment of a commit whose own history the film shows; None for the project's.

    Raises:
        BadInputError: The configuration of the scores is invalid.
    """
    config = configuration.load(project)
    if not config.enabled:
        return None
    state = state_of(project, config, moment)
    days = sorted(state.days)
    if not days:
        return None
    rows = [_score_series(state, score, days) for score in summary.current_scores(state).values()]
    low = []
    for number in range(len(days)):
        levels = {row["id"]: Level("", row["values"][number]) for row in rows if row["values"][number] is not None}
        low += [[number, alert["score"], alert["level"]] for alert in alerts(levels, config, DASHBOARD)]
    # The last event that was recorded by the end of each day, also where the clock ran back.
    by_time = sorted(zip(film.times, film.lasts, strict=True))
    times, numbers = [at for at, _ in by_time], [0, *accumulate((seq for _, seq in by_time), max)]
    ends = (datetime.combine(date.fromisoformat(day), time.max, config.timezone).timestamp() for day in days)
    last = [numbers[bisect_right(times, int(end * 1000))] for end in ends]
    return {"days": days, "ends": last, "series": rows, "alerts": low}


def _score_series(state: Scores, score: summary.CurrentScore, days: Sequence[str]) -> dict[str, Any]:
    """Return a score on each day; None on a day on which too little of it was measured to show it."""
    shown = {level.period: level.value for level in score.levels if is_enough(level.measured, state.config)}
    measured = {level.period: level.measured / 100 for level in score.levels}
    baseline = state.baselines.get(score.id)
    composite = "composite" if score.id.startswith(SESSION) else "component"
    return {
        "id": score.id,
        "label": score.name,
        "group": "overall" if score.id == OVERALL_ID else composite,
        "values": [shown.get(day) for day in days],
        "coverage": [measured.get(day) for day in days],
        "baseline": None if baseline is None else baseline.value,
    }


# Stories: what `why` says about each entry, and the numbers of the events that decided


def _stories_part(film: Film, read: Callable[[], Iterable[Batch]], choices: Choices) -> dict[str, Any]:
    """Return the stories of the entries that changed last, as of the end of the film."""
    names, counts = list(film.names), Counter(film.entries)
    last_changed = [entry for entry in dict.fromkeys(reversed(film.entries)) if entry][:MAX_STORIES]
    rows = accumulate(counts[entry] for entry in last_changed)
    latest = [names[entry - 1] for entry, row in zip(last_changed, rows, strict=True) if row <= MAX_ROWS]
    state = fold_history(entries_view(latest), read, film.last)
    stories = [_tell(film, name, state, choices) for name in latest]
    return {"stories": stories, "omitted": len(names) - len(stories)}


def _tell(film: Film, name: str, state: EntryStatuses, choices: Choices) -> dict[str, Any]:
    """Return a story as the page shows it: ``{entry, sentences, deciding, others}``."""
    numbers, story = film.names, explain(state.stories[name], state)
    if not choices.with_quotes:
        story |= {"notes": [], "original": None}
    if not choices.with_texts:
        for row in (*story["trail"], *story["ignored"], story["decided_by"]):
            if row is not None:
                # Before its writer, by which a story knows that the event is of a shared book.
                row["at"] = read_event_time(row)
                row["by"] = {"rater": row["by"]["rater"]}
    sentences = tell_story(story)
    return {
        "entry": numbers[name],
        "sentences": [mask(sentence) for sentence in sentences],
        "deciding": [event["seq"] for event in story["deciding"]],
        "others": [
            [numbers[row["name"]], row["status"], row["relation"], numbers[row["of"]]] for row in story["lineage"]
        ],
    }
