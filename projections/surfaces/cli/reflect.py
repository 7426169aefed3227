"""``tallybook reflect``: reflect on the pending sessions or on a folder of transcripts, or show the prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
import os
from pathlib import Path
from time import sleep
from typing import Any, Final

import attrs
import click

from tallybook.ledger import clock
from tallybook.ledger.errors import (
    EXIT_NO,
    EXIT_NOT_WRITTEN,
    BadInputError,
    CannotWriteError,
    OutcomeUnknownError,
    TallybookError,
)
from tallybook.ledger.storage.disk import reason
from tallybook.projections.history.reflections import NO_RATER, ReflectedSession, Reflections
from tallybook.projections.surfaces.agents.table import require_person
from tallybook.projections.surfaces.cli.parameters import as_json
from tallybook.projections.surfaces.cli.review import refresh_notice
from tallybook.projections.surfaces.console.output import answer, format_count, note, reply, require_consent, say
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.reflection import prompts, raters, transcript, worker
from tallybook.projections.surfaces.reflection.worker import Plan, Result, is_of_project
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, pair, record

FROM_TRIGGER: Final = "tallybook reflect --from"
SETTINGS_NAME: Final = "tallybook.toml"
_STANDARD_FILES, _MAX_FILES = 3, 1024
_HEAD_LINES: Final = 100
_EXIT_CODES: Final = {worker.DONE: 0, worker.HELD: EXIT_NOT_WRITTEN}
"""How the worker ended → the exit code; EXIT_NO for any other end."""


Row = dict[str, Any]
"""The prompt of a piece, as JSON has it: ``{session, tokens, prompt}``, with about what it and its answer cost."""


@click.command(epilog="Example: tallybook reflect --dry-run; tallybook reflect --from ~/.claude/projects/-home-me-shop")
@click.option("--dry-run", is_flag=True, help="Show the prompts and estimated costs; record nothing.")
@click.option("--from", "source", metavar="DIR", help="Reflect on an agent's folder of transcripts, oldest first.")
@click.option("--yes", is_flag=True, help="Begin --from without asking.")
@click.option("--rater", help="Use this rater; else that of the settings.")
@click.option("--model", help="Use this model; else that of the settings.")
@click.option(
    "--tokens", metavar="N", type=click.IntRange(0), help="Spend at most N tokens a day, in place of the setting."
)
@click.option("--unattended", is_flag=True, hidden=True)
@click.option("--start", hidden=True)
@as_json
@click.pass_obj
def reflect(project: Project, /, **options: Any) -> int:
    """Let a model rate the sessions that await reflection.

    The ratings and new entries are recorded. Without a rater nothing is sent; citations, the agents' marks and the
    numbers of each session are recorded.

    --json answers {ended, tokens, pieces}
    """
    if options["start"]:
        # The agent's start folder: its settings take precedence over the project's.
        project = Project(project.root, Path(options["start"]))
    plan = _plan(project, options)
    if options["unattended"]:
        return _run_unattended(project, attrs.evolve(plan, patient=True))
    if options["source"] is not None and plan.rater == NO_RATER:
        raise BadInputError("--from", "needs a rater", f"give --rater, or set it in {SETTINGS_NAME}")
    if options["source"] is None and not options["dry_run"]:
        return _run(project, plan, as_json=options["as_json"])
    known = worker.load_reflections(project)
    if options["source"] is None:
        sessions = (known.sessions | worker.find_longer(project, known)).items()
        awaiting = {name: session for name, session in sessions if name and worker.has_more(session, plan.rater)}
    else:
        awaiting = _sessions_in(project, Path(options["source"]), known, plan.rater)
    prompts = list(_prompts(project, awaiting, known, plan))
    if options["dry_run"]:
        value = {"rater": plan.rater, "tokens": sum(row["tokens"] for row in prompts), "pieces": prompts}
        heads = (f"== session {row['session']}, about {row['tokens']:,} tokens" for row in prompts)
        lines = [line for head, row in zip(heads, prompts, strict=True) for line in (head, *row["prompt"].splitlines())]
        reply(value, [*lines, _estimate(prompts, known, plan)], as_json=options["as_json"])
        return 0
    if not prompts:
        say("every session in the folder was reflected on")
        return 0
    note(_estimate(prompts, known, plan))
    what = f"sends {format_count(len(prompts), 'prompt')} to a model"
    require_consent("reflect --from", what, "Begin?", yes=options["yes"], as_json=options["as_json"])
    requests = [
        worker.reflection_request(name, session.request_end, FROM_TRIGGER, session.transcript, "human")
        for name, session in awaiting.items()
    ]
    record.write(project, requests)
    return _run(project, attrs.evolve(plan, folders=(Path(options["source"]),)), as_json=options["as_json"])


def _plan(project: Project, options: dict[str, Any]) -> Plan:
    """Return the plan by the options, and for the rest by the settings."""
    configured = settings.read(project)
    rater = options["rater"] or configured.rater
    if rater not in settings.RATERS:
        hint = f"use one of {', '.join(settings.RATERS)}"
        raise BadInputError(f"--rater {rater}", "is not a rater that Tallybook has", hint)
    if rater not in {NO_RATER, configured.rater} and not options["dry_run"]:
        # The settings are the person's consent to send sessions to this rater, and to no other.
        require_person(f"reflect --rater {rater}")
    tokens = configured.tokens_per_day if options["tokens"] is None else options["tokens"]
    model = options["model"] or configured.model
    return worker.Plan(configured._replace(rater=rater, model=model, tokens_per_day=tokens))


def _work(project: Project, plan: Plan, report: Callable[[Result], None] = lambda _: None) -> str:
    """Reflect, and write down what agents' marks ask of a person, also where the work was cut short."""
    try:
        return worker.work(project, plan, report)
    finally:
        # Without a ledger nothing is written.
        if project.ledger.exists():
            with suppress(TallybookError, OSError):
                refresh_notice(project)


def _run_unattended(project: Project, plan: Plan) -> int:
    """Work as the process that a hook started: it has no terminal, so an error is saved for `doctor`."""
    # The agent's open files, inherited from the hook.
    os.closerange(_STANDARD_FILES, _MAX_FILES)
    try:
        sleep(worker.WRITE_PAUSE_S)
        _work(project, plan)
    except Exception as error:  # noqa: BLE001 - it is saved, whatever it is
        with suppress(Exception):
            ledger_access.save_error(project, error)
    return 0


def _run(project: Project, plan: Plan, *, as_json: bool) -> int:
    """Work, and print each result as it comes, or all as JSON."""
    results: list[Result] = []

    def report(result: Result) -> None:
        results.append(result)
        if not as_json:
            say(_line(result))

    try:
        ended = _work(project, plan, report)
    except (CannotWriteError, OutcomeUnknownError, OSError) as error:
        # A broken pipe is no fault of the disk: the reader of the answer has ended.
        if not results or isinstance(error, BrokenPipeError):
            raise
        hint = "what was printed so far is recorded, the rest stays pending"
        raise CannotWriteError(project.ledger, reason(error), hint) from error
    if as_json:
        tokens = sum(result.tokens for result in results)
        answer({"ended": ended, "tokens": tokens, "pieces": list(map(attrs.asdict, results))})
    elif ended != worker.DONE:
        note(f"{ended}; the rest stays pending")
    elif not results:
        say("no session awaits reflection")
    elif plan.rater == NO_RATER:
        note(f"no rater is chosen, so nothing was rated: set [reflection] rater in {SETTINGS_NAME}, or give --rater")
    return _EXIT_CODES.get(ended, EXIT_NO)


def _line(result: Result) -> str:
    """Return the result of a piece as one line."""
    if result.failed:
        return f"{result.session}: nothing recorded: {result.failed}"
    parts = [f"{result.rated} rated", *(f"learned {name}" for name in result.added)]
    parts += [f"pruned {name}" for name in result.pruned]
    parts += [f"ignored {what}" for what in result.ignored]
    parts += [f"{format_count(result.unknown, 'line')} not understood"] if result.unknown else []
    parts += ["not measured, as neither a prompt nor a call was understood"] if result.is_unmeasured else []
    return f"{result.session}: {', '.join(parts)}, {result.tokens:,} tokens"


def _estimate(prompts: list[Row], known: Reflections, plan: Plan) -> str:
    """Return the cost of these prompts, in one line."""
    if plan.rater == NO_RATER:
        return "no rater is chosen: nothing would be sent, and nothing costs"
    tokens = sum(row["tokens"] for row in prompts)
    sessions = len({row["session"] for row in prompts})
    rater = ", ".join(filter(None, (plan.rater, plan.settings.model)))
    cost = f"{format_count(sessions, 'session')} in {format_count(len(prompts), 'piece')}, about {tokens:,} tokens"
    spent = known.tokens_by_day.get(clock.utc_now().at[:10], 0)
    return f"{cost} ({rater}); {spent:,} of today's {plan.settings.tokens_per_day:,} tokens are spent"


def _prompts(
    project: Project, sessions: Mapping[str, ReflectedSession], known: Reflections, plan: Plan
) -> Iterator[Row]:
    """Yield the prompts for sessions, piece by piece; a missing transcript has none.

    The results of earlier pieces change the playbook in the prompts of later ones, so the texts are approximate.
    """
    playbook = pair.merge_playbooks(project, commands.playbook(project).state)
    for name, session in sessions.items():
        if not session.transcript or not transcript.locate(Path(session.transcript)).is_file():
            continue
        # The worker reports one that cannot be read.
        with suppress(OSError):
            for piece in prompts.read_pieces(worker.unread(known, name, plan, session, playbook)):
                if piece.text:
                    text = worker.prompt_for(piece.text, playbook, known.withheld.get(name, ())).text
                    yield {"session": name, "tokens": raters.estimate_tokens(text), "prompt": text}


def _sessions_in(project: Project, folder: Path, known: Reflections, rater: str) -> dict[str, ReflectedSession]:
    """Return the sessions of a folder's transcripts that are not read to their end, the oldest first.

    Raises:
        BadInputError: The folder cannot be read, or has no transcript.
    """
    try:
        readers = transcript.find_below(folder)
        sizes = {path: transcript.size_of(path) for path in sorted(readers, key=_begin_time)}
    except OSError as error:
        raise BadInputError(f"--from {folder}", f"cannot be read: {reason(error)}") from error
    if not sizes:
        raise BadInputError(f"--from {folder}", "has no transcript", "give a folder with files SESSION.jsonl")
    own = [path for path in sizes if readers[path].is_per_project or is_of_project(path, project)]
    if not own:
        hint = "those of Codex CLI and Copilot CLI count for the project that they began in; give --project DIR"
        raise BadInputError(f"--from {folder}", "has no transcript of this project", hint)
    sessions = {}
    for path in own:
        place = str(path.absolute())
        name = readers[path].session_of(place)
        session = known.sessions.get(name, ReflectedSession(None))
        session = attrs.evolve(session, transcript=place, request_end=sizes[path])
        if name and worker.has_more(session, rater):
            sessions[name] = session
    return sessions


def _begin_time(path: Path) -> tuple[str, str]:
    """Return when a session began, by its first line with a time, and its name."""
    with suppress(OSError):
        times = (line.entry.at for line in islice(transcript.lines(path), _HEAD_LINES))
        return next(filter(None, times), ""), path.name
    return "", path.name
