"""The verbs of upkeep: verify, replay, import, export and completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, BadInputError, CannotWriteError
from tallybook.ledger.storage.disk import reason
from tallybook.projections.history.event_rows import author_json
from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.surfaces.agents.table import require_person
from tallybook.projections.surfaces.cli.main import COMPLETE_VARIABLE, tallybook
from tallybook.projections.surfaces.cli.parameters import Verb, at_when, read_input
from tallybook.projections.surfaces.console.output import format_count, note, reply, say
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.workspace.personal import PersonalPlaybook
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

if TYPE_CHECKING:
    from tallybook.ledger.verification import Verification


@click.command(cls=Verb, example="tallybook verify --json")
@click.option("--expect", metavar="SEQ:CHAIN", help="Require event SEQ to have the chain value CHAIN.")
@click.option("--salvage", "salvaging", is_flag=True, help="Show the playbook folded from the undamaged events.")
def verify(project: Project, /, *, expect: str | None, salvaging: bool, as_json: bool) -> int:
    """Verify every event of the ledger.

    Exit code 1: playbook.json differs from the ledger, a draw of lift comes out differently when it is repeated, or
    there is no ledger. Exit code 3: the ledger is damaged.

    --json answers {ok, events, head, problems, unknown_kinds, redacted, drift}, and draws, if lift has drawn;
    --salvage: also {missing, salvaged}
    """
    verdict, state = commands.verify_and_fold(project, expect)
    salvaged = commands.salvage(project) if salvaging else None
    drift = commands.drift(project, state) if verdict.ok else None
    from tallybook.projections.surfaces.scores.lift import draw_again

    # The one pass above noted whether lift was ever asked, so most ledgers are not read again.
    redrawn = draw_again(project) if verdict.ok and verdict.asks_lift else {}
    code = EXIT_DAMAGED if not verdict.ok else 0 if drift is None and not redrawn.get("different") else EXIT_NO
    if not verdict.ok:
        from tallybook.projections.surfaces.sharing import ledger_copies

        # A person's own playbook has no repair.
        if not isinstance(project, PersonalPlaybook):
            note(f"to go on, {ledger_copies.repair_hint(project)}")
    value: dict[str, Any] = {
        "ok": verdict.ok,
        "events": verdict.events,
        "head": {"seq": verdict.head.seq, "chain": verdict.head.chain},
        "problems": [
            {"seq": problem.seq, "line": problem.line, "message": problem.message} for problem in verdict.problems
        ],
        "unknown_kinds": verdict.unknown_kinds,
        "redacted": [
            {"seq": seq, "id": record.id, "at": record.at, "by": author_json(record.by)}
            for seq, record in verdict.redacted
        ],
        "drift": drift,
    }
    value |= {"draws": redrawn} if redrawn else {}
    value |= {} if salvaged is None else {"missing": verdict.missing, "salvaged": salvaged}
    reply(value, _verdict_lines(verdict, drift, redrawn), as_json=as_json)
    if salvaged is not None and not as_json:
        from tallybook.projections.surfaces.console import terminal

        gaps = [(first, last) for first, last in verdict.missing if last is None or last >= first]
        say(*(f"missing: events {first} to {'the end' if last is None else last}" for first, last in gaps))
        terminal.print_playbook(terminal.console_for(), salvaged["key_points"], salvaged["last_updated"])
    return code


def _verdict_lines(verdict: Verification, drift: str | None, redrawn: Mapping[str, Any]) -> Iterator[str]:
    """Yield the result of a verification as lines for people, with that of the draws of lift."""
    # `--expect` takes the head as it is printed here.
    yield f"{format_count(verdict.events, 'event')} verified; head {verdict.head.seq}:{verdict.head.chain}"
    yield from (f"note: {line}" for line in verdict.notes)
    for seq, record in verdict.redacted:
        why = getattr(record.event, "reason", None) or "its reason was redacted, too"
        author = f"at {record.at} by {record.by.rater}, event {record.seq}"
        yield f"redacted: the text of seq {seq}, {author}: {why}"
    for kind, number in verdict.unknown_kinds.items():
        yield f"note: {number:,} of kind {kind}, which this version keeps and ignores"
    yield from (f"damaged: {problem}" for problem in verdict.problems)
    if drift is not None:
        yield f"drift: {drift}"
    if redrawn.get("again"):
        yield f"{format_count(redrawn['again'], 'draw')} of lift drawn again"
    if redrawn.get("unknown"):
        yield f"{format_count(redrawn['unknown'], 'draw')} of lift not drawn again: the secret is not here"
    yield from redrawn.get("different", ())


@click.command(cls=Verb, example="tallybook replay --at 2d --output before.json")
@at_when
@click.option("--output", metavar="FILE", help="Write to FILE instead; - is standard output.")
@click.option("--check", "checking", is_flag=True, help="Write nothing; exit with 1 if a file differs.")
def replay(project: Project, /, *, when: str | None, output: str | None, as_json: bool, checking: bool) -> None:
    """Rebuild playbook.json from the ledger.

    With --at, the playbook as of that moment is printed, or written to --output.

    --json answers {path, result}
    """
    if checking:
        if not (when is None and output is None):
            raise BadInputError("--check", "excludes --at and --output", "leave them out")
        # Slow to load, and only verbs that look at all files need it.
        from tallybook.projections.surfaces.scores import files as score_files

        commands.check(project)
        score_files.check(project)
        _reply_result(project, "is what the ledger says", as_json=as_json)
        return
    moment = None if when is None else commands.playbook(project, when)
    note(*(() if moment is None else moment.notes))

    def data() -> bytes:
        opened = Opened(project)
        state = opened.playbook(cold=True) if moment is None else moment.state
        return playbook_bytes(state, opened.settings.format)

    if output == "-" or (moment is not None and output is None):
        sys.stdout.buffer.write(data())
    elif output is not None:
        commands.write_copy(project, Path(output), data)
        as_of = "" if moment is None else f", as of {moment.moment}"
        reply({"path": output, "result": "written"}, [f"{output} written{as_of}"], as_json=as_json)
    else:
        _rebuild(project, as_json=as_json)


def _rebuild(project: Project, *, as_json: bool) -> None:
    """Write playbook.json and the score files."""
    from tallybook.projections.surfaces.scores import files as score_files

    try:
        _, notes = commands.replay(project)
        # The score files come before the answer, so that no error follows an answer that says all is well.
        notes += score_files.rebuild(project)
    except OSError as error:
        # `run_guarded` excuses an error once an edit is recorded; who asks for a replay asks for the files.
        raise CannotWriteError(project.playbook, reason(error), "the ledger is intact; try again") from error
    # A ledger that only measures has no such file.
    _reply_result(project, "written" if os.path.lexists(project.playbook) else "not begun", as_json=as_json)
    note(*notes)


def _reply_result(project: Project, result: str, *, as_json: bool) -> None:
    why = ": the ledger has no event of a playbook" if result == "not begun" else ""
    reply({"path": str(project.playbook), "result": result}, [f"{project.playbook} {result}{why}"], as_json=as_json)


@click.command("import", cls=Verb, example="tallybook import .claude/playbook.json")
@click.argument("file", required=False)
@click.option("--ledger", metavar="FILE|DIR|git:REV", help="Import every rating of another ledger instead.")
@click.option("--dry-run", is_flag=True, help="With --ledger, show what it brings; record nothing.")
@click.option("--accept-loss", is_flag=True, help="With --ledger, go on if acknowledged events are lost.")
def import_(project: Project, /, *, file: str | None, ledger: str | None, as_json: bool, **how: bool) -> None:
    """Import an existing playbook.json, or another ledger.

    The entries of the FILE become events of the ledger; the same file a second time adds nothing. With --ledger, each
    event of another ledger becomes an event of this one, once. Its file may contain the conflict of a merge. If this
    project's ledger is damaged, it is repaired, and the damaged file is set aside.

    --json answers {imported, skipped, problems}; --ledger: {seq_from, seq_to, added, joined, renamed, ratings, batches,
    known, ignored, masked, redacted, unproven, repaired, aside, lost, dry_run}
    """
    if (file is None) == (ledger is None):
        raise BadInputError("import", "takes either FILE or --ledger", "give one of them")
    # Entries of another ledger would bring that ledger's names.
    if ledger is not None and isinstance(project, PersonalPlaybook):
        raise BadInputError("import --ledger", "does not work on your own playbook", "leave --mine out")
    if ledger is not None:
        from tallybook.projections.surfaces.sharing import ledger_copies

        ledger_copies.print_imported(
            ledger_copies.import_ledger(project, ledger, **how), ledger, as_json=as_json, **how
        )
        return
    if any(how.values()):
        raise BadInputError("import", "--dry-run and --accept-loss need --ledger", "leave them out")
    data, source = read_input(str(file), "a playbook, as JSON")
    if data.startswith(b'{"crc":'):
        raise BadInputError(source, "is a ledger, not a playbook", f"run `tallybook import --ledger {source}`")
    value, is_repeated = commands.import_file(project, data, source)
    entries = f"{format_count(value['imported'], 'entry', 'entries')} imported from {source}"
    again = "; this file was imported before" if is_repeated else ""
    lines = [entries + (f", {value['skipped']} skipped" if value["skipped"] else "") + again]
    lines += [f"{problem['source']}: {problem['message']}" for problem in value["problems"]]
    reply(value, lines, as_json=as_json)


@click.command(cls=Verb, example="tallybook export agents-md; tallybook export agents-md CLAUDE.md")
@click.argument("form", metavar="FORMAT", type=click.Choice(["agents-md"]))
@click.argument("file", required=False)
def export(project: Project, /, *, form: str, file: str | None, as_json: bool) -> None:
    """Write entries into a file that agents read.

    FORMAT is agents-md: the entries that a person typed, accepted or pinned, at most 2,000 characters, between two
    markers in AGENTS.md, or in FILE, which is CLAUDE.md, GEMINI.md or .cursor/rules/tallybook.mdc. Text outside of the
    markers stays. No hook updates the block: export again when `tallybook check` says that it is out of date. Hooks do
    not inject entries that an agent already gets from such a file.

    --json answers {file, changed, names, left_out}; left_out has each entry that is not in the file, and why
    """
    require_person("export")
    from tallybook.projections.surfaces.cli import selection
    from tallybook.projections.surfaces.hooks.blocks import AGENTS_MD

    del form
    done = selection.export(project, file or AGENTS_MD)
    note(*(f"{name} is left out: {why}" for name, why in done["left_out"].items()))
    what = "written" if done["changed"] else "has them already"
    count = format_count(len(done["names"]), "entry", "entries")
    reply(done, [f"{done['file']} {what}: {count}"], as_json=as_json)


_LINE: Final = 'command -v tallybook >/dev/null && eval "$(tallybook completion {})"'
SHELLS: Final = {
    "bash": ("HOME", "", ".bashrc", _LINE.format("bash")),
    "zsh": ("ZDOTDIR", "", ".zshrc", _LINE.format("zsh")),
    "fish": (
        *("XDG_CONFIG_HOME", ".config", "fish/completions/tallybook.fish"),
        "command -q tallybook; and tallybook completion fish | source",
    ),
}
"""Shell → the folder of its start file, as a variable of the environment or else below the home folder; that file;
the line that loads completion where there is a `tallybook`, and asks that, so that an upgrade needs no second line."""


@click.command(epilog="Example: tallybook completion bash --install")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.option("--install", "installing", is_flag=True, help="Add completion to the start file of the shell.")
def completion(*, shell: str, installing: bool) -> int:
    """Print or install shell completion.

    Without --install it prints the script that the shell evaluates.
    """
    if not installing:
        from click.shell_completion import shell_complete

        return shell_complete(tallybook, {}, "tallybook", COMPLETE_VARIABLE, f"{shell}_source")
    variable, below_home, file, line = SHELLS[shell]
    path = Path(os.environ.get(variable) or Path.home() / below_home, file)
    result = "already loads"
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
        if line not in text.splitlines():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as start_file:
                start_file.write(("\n" if text and not text.endswith("\n") else "") + line + "\n")
            result = "loads"
    except OSError as error:
        raise CannotWriteError(path, reason(error), f"add this line yourself: {line}") from error
    say(f"{path} {result} completion; it takes effect in a new shell")
    return 0
