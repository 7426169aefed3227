"""Reading ``scoring-config.yaml``: the packaged default, and a project's own laid over it.

YAML is read strictly: duplicate keys and constructs that only a program would write are refused.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
import json
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tallybook import prompts
from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.line import kind_of
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.head import lines_before
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.scores.config import SESSION, Config, DocumentError, overlay, read_config, score_id
from tallybook.projections.scores.view import Scores, scores_view
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.checkpoints import Form
from tallybook.projections.surfaces.history.reading import fold_view, open_own_log
from tallybook.projections.surfaces.hooks.citations import MAX_SEARCHED_BYTES
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.projections.surfaces.history.moments import Moment


FILE: Final = "scoring-config.yaml"
PLACE: Final = f".claude/config/{FILE}"
MAX_BYTES: Final = 1024 * 1024
PACKAGED: Final = Path(prompts.__file__).parent / FILE
MAX_DEPTH: Final = 40
"""How deep a document may be nested: the library's C part recurses without a limit of its own, and would crash."""
HINT: Final = "`tallybook score --config` shows every key with its default"


def load(project: Project) -> Config:
    """Return the configuration of a project's scores.

    Raises:
        BadInputError: Its own file cannot be read, is no YAML, or a key in it cannot be what it is; the message names
            the key.
    """
    return _load(project)[0]


def read_effective(project: Project) -> tuple[str, dict[str, Any]]:
    """Return the configuration in force: as YAML, with every comment where nothing is laid over the default; as values.

    Raises:
        BadInputError: As ``load``.
    """
    import yaml

    document = _load(project)[1]
    if document == default():
        return PACKAGED.read_text(encoding="utf-8"), document
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True), document


def _load(project: Project) -> tuple[Config, dict[str, Any]]:
    # What holds no keys is laid over nothing, so that the parser refuses it as a whole.
    file = _load_own(project.root / PLACE)
    document = overlay(default(), file) if isinstance(file, dict) else default() if file is None else file
    try:
        return read_config(document), document
    except DocumentError as error:
        raise BadInputError(PLACE, str(error), HINT) from error


def score_named(config: Config, score_name: str, where: str) -> str:
    """Return the id of the score that a user names: ``AC-06``, ``score.ac06``, ``session.overall`` or ``overall``.

    Raises:
        BadInputError: There is none; the error begins with ``where``.
    """
    for id_ in (score_id(score_name), f"{SESSION}{score_name}"):
        if id_ in config.scores:
            return id_
    raise BadInputError(f"{where} {score_name}", "is not a score", f"there are {', '.join(config.scores)}")


def default() -> dict[str, Any]:
    """Return the packaged default, as YAML gives it."""
    document: dict[str, Any] = parse_yaml(PACKAGED.read_bytes())
    return document


def as_json(config: Config, fields: Collection[str] = ()) -> str:
    """Return a configuration, or some fields of it, as JSON that is the same in every process."""
    values = {name: getattr(config, name) for name in fields or config.__struct_fields__}
    return msgspec.json.encode(values, enc_hook=str).decode()


# A link or a pipe in a cloned repository must neither read another file of the user nor wait for a writer.
def _load_own(path: Path) -> Any:
    """Return what a project's own file says, None where there is none."""
    try:
        return parse_yaml(disk.read_small(path, MAX_BYTES))
    except FileNotFoundError:
        return None
    except CannotWriteError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            return None
        raise BadInputError(PLACE, f"cannot be read: {error.reason}") from error
    except ValueError as error:
        raise BadInputError(PLACE, f"is not valid YAML: {error}", HINT) from error


def parse_yaml(data: bytes) -> Any:
    """Return the value of YAML that a person wrote, None where it is empty.

    PyYAML is loaded late: few commands read any.

    Raises:
        ValueError: It is no YAML, has a key twice, is nested too deeply, or has a tag or a merge key; in one line.
    """
    import yaml

    # PyYAML may be built without libyaml.
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """A loader that refuses duplicate keys; PyYAML's own loaders keep the last one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as the library calls it
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            first = {key.value: key for key in reversed(keys)}
            for key in keys:
                if key is not first[key.value]:
                    raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} twice", key.start_mark)
            return super().construct_mapping(node, deep)

    def construct_number(loader: Any, node: Any) -> float:
        """Return a number; 70.0 is a whole one, as for JSON readers."""
        number: float = loader.construct_yaml_float(node)
        return int(number) if number.is_integer() else number

    Loader.add_constructor("tag:yaml.org,2002:float", construct_number)
    try:
        _refuse_hostile(yaml, data, base)
        return yaml.load(data, Loader)  # noqa: S506 - a safe loader, and stricter
    except yaml.YAMLError as error:
        words = (getattr(error, name, None) for name in ("context", "problem"))
        what = ", ".join(filter(None, words)) or str(error)
        raise ValueError(_with_place(what, getattr(error, "problem_mark", None))) from error


def _refuse_hostile(yaml: Any, data: bytes, loader: Any) -> None:
    """Refuse what the library answers with a crash, an error of its own insides, or gigabytes of memory."""
    depth = 0
    for event in yaml.parse(data, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        # Half a million opened lists are a small file.
        if depth > MAX_DEPTH:
            raise ValueError(_with_place(f"it is nested more than {MAX_DEPTH} deep", event.start_mark))
        if getattr(event, "tag", None) is not None:
            raise ValueError(_with_place(f"the tag {event.tag}, which is not supported", event.start_mark))
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            raise ValueError(_with_place("the key <<, which is not supported", event.start_mark))


def _with_place(what: str, mark: Any) -> str:
    """Return a problem in one line, with its place in the document."""
    what = " ".join(what.split())
    return what if mark is None else f"{what}, at line {mark.line + 1}, column {mark.column + 1}"


_SCORING = ("session_weights", "sessions", "benchmarks", "feedback", "components", "timezone")
"""The parts of the configuration that decide a score. The others only show the same scores in another way."""


def state_of(project: Project, config: Config | None = None, when: Moment | None = None) -> Scores:
    """Return the scores of a project, counted, now or as of a moment.

    Args:
        project: The project.
        config: The configuration of its scores; None for what the project says.
        when: The moment; None for the end of the ledger.

    Raises:
        TallybookError: The ledger is damaged or cannot be read, or the configuration is invalid.
    """
    if when is not None and when.in_book is not None:
        where, hint = f"--at book:{when.in_book}", "use an event number of this machine, a date or an age"
        raise BadInputError(where, "is a moment of the book, and scores are of this machine", hint)
    form = form_of(load(project) if config is None else config)
    # The ledger file of a commit need not be the beginning of this one, so that no checkpoint fits it.
    if when is not None and when.commit:
        state = fold_history(form.view, when.history, when.seq)
    else:
        # Scores are those of the own ledger, with or without a shared book.
        state = fold_view(form, open_own_log(project), None if when is None else when.seq)
    state.seal()
    return state


def form_of(config: Config) -> Form[Scores]:
    """Return how the scores under a configuration are saved."""
    return Form("scores", scores_view(config), attrgetter("playbook"), as_json(config, _SCORING))


RECENT: Final = 20
"""So many of the last measured sessions are compared with as many before them."""
_KIND: Final = "session.measured"


def line(project: Project) -> str:
    """Return the line; empty where no session was measured."""
    from tallybook.projections.surfaces.writing import curation

    shares = _clean_shares(project)
    if not shares:
        return ""
    recent, earlier = shares[:RECENT], shares[RECENT:]
    trend = f", {fmean(recent) - fmean(earlier):+.1f} against the {len(earlier)} before" if earlier else ""
    book = reading.current(reading.open_log(project))
    votes = sum(map(sum, book.by_agents.values()))
    has_lessons = reading.open_own_log(project).may_contain(b'"kind":"point.proposed"')
    accepted = curation.load_proposals(project).accepted if has_lessons else 0
    return (
        f"clean: {fmean(recent):.1f}% of calls of tools in the last {format_count(len(recent), 'session')}{trend}; "
        f"{format_count(votes, 'vote')} by agents, {format_count(accepted, 'lesson')} accepted, "
        f"{format_count(len(book.gone), 'entry', 'entries')} left"
    )


def _clean_shares(project: Project) -> list[float]:
    """Return the share of clean calls of the last measured sessions with a call, the latest first; unverified."""
    from tallybook.projections.scores.lift import clean

    shares: dict[str, float] = {}
    path = Path(reading.open_own_log(project).log_file)
    with suppress(OSError):
        for data in lines_before(path, path.stat().st_size, _KIND.encode(), MAX_SEARCHED_BYTES):
            with suppress(ValueError, KeyError, TypeError):
                event = json.loads(data) if kind_of(data) == _KIND else {}
                numbers = event["body"]["numbers"]
                # A session is measured at each read that reaches its end, and the last numbers replace earlier ones.
                if numbers["calls"]:
                    shares.setdefault(event["by"]["session"], clean(numbers))
            if len(shares) == 2 * RECENT:
                break
    return list(shares.values())
