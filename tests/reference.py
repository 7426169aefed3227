"""The parts of the reference that the code knows, for `cog`, which writes them into the pages.

``.venv/bin/cog -r -I tests PAGE…`` brings pages up to date, and tests/test_readme.py checks that they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
import re
import textwrap

import click

from helpers.commands import verbs
from tallybook.ledger.telemetry.mapping import FLAG, STATED, SUCCESS, TABLE, Row
from tallybook.projections.playbook.entry import POLICIES
from tallybook.projections.surfaces.cli.main import ANSWERS, GROUPS
from tallybook.projections.surfaces.cli.parameters import PROVENANCE_OPTIONS

SEE = {
    "init": "[Installing for an agent](HOOKS.md#installing-for-an-agent), "
    "[A playbook of your own](#a-playbook-of-your-own)",
    "show": "[Moments](#moments), [Injection by task](HOOKS.md#injection-by-task)",
    "add": "[Near duplicates](#near-duplicates), [Entries that hold until a date](#entries-that-hold-until-a-date)",
    "why": "[Stories of entries](#stories-of-entries)",
    "review": "[Review](#review), [Near duplicates](#near-duplicates)",
    "undo": "[Undo](#undo)",
    "page": "[The page](page/README.md)",
    "doctor": "[The checks of doctor](#the-checks-of-doctor)",
    "bisect": "[Conditions](../README.md#conditions)",
    "what-if": "[Policies](../README.md#policies)",
    "sql": "[SQL](#sql)",
    "reword": "[Entries that hold until a date](#entries-that-hold-until-a-date)",
    "move": "[Manual edits and sections](#manual-edits-and-sections)",
    "promote": "[A playbook of your own](#a-playbook-of-your-own)",
    "demote": "[A playbook of your own](#a-playbook-of-your-own)",
    "lift": "[Lift](#lift)",
    "score": "[Scores](../README.md#scores)",
    "score record": "[Measurements](../../ledger/telemetry/README.md)",
    "score gate": "[Gates and baselines](../README.md#gates-and-baselines)",
    "share": "[Sharing](../../ledger/sharing/README.md)",
    "check": "[CI and git hooks](FILES.md#ci-and-git-hooks), [Files that agents read](HOOKS.md#files-that-agents-read)",
    "import": "[Migrate existing code](HOOKS.md#migrate-existing-code), "
    "[Two copies of a ledger](FILES.md#two-copies-of-a-ledger)",
    "redact": "[Redaction](#redaction)",
    "reflect": "[Raters](HOOKS.md#raters)",
    "export": "[Files that agents read](HOOKS.md#files-that-agents-read)",
    "hook": "[Hooks and reflection](HOOKS.md#hooks-and-reflection)",
    "mcp": "[MCP](HOOKS.md#mcp)",
}
"""Verb → the sections of the reference that say more."""

SENTENCE_END = re.compile(r"(?<=[.:]) (?=[A-Z`-])")


def commands() -> Iterator[str]:
    """Yield a section for each group of verbs, and in it one for each verb."""
    table = verbs()
    for group, rows in GROUPS.items():
        yield f"### {group}\n"
        for row in rows:
            yield from _verb(row.name, table[row.name])


def _verb(name: str, command: click.Command) -> Iterator[str]:
    yield f"#### `tallybook {name}`\n"
    words = [*name.split(), *command.collect_usage_pieces(click.Context(command))[1:]]
    yield f"`tallybook {' '.join(filter(None, words))}`\n"
    # A sentence a line, as in every page.
    for paragraph in textwrap.dedent((command.help or "").replace("\n", "\n    ", 1)).strip().split("\n\n"):
        yield SENTENCE_END.sub("\n", " ".join(paragraph.split())) + "\n"
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    common = {"as_json", *(PROVENANCE_OPTIONS if any(param.name == "rater" for param in options) else ())}
    if own := [param for param in options if param.name not in common or param.help not in COMMON_HELP]:
        yield from ("| option | |", "|---|---|", *map(_option, own), "")
    example, _, shape = (command.epilog or "").removeprefix("Example: ").partition(f"\n\n{ANSWERS}")
    answer = [f"`--json` answers {_as_code(shape)}."] if shape else []
    yield "\n".join([*answer, f"Example: `` {example} ``", *([f"See {SEE[name]}."] if name in SEE else [])]) + "\n"


COMMON_HELP = {*PROVENANCE_OPTIONS.values(), "Print the answer as JSON."}


def _option(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.make_metavar(click.Context(click.Command('x')))}"
    return f"| {', '.join(f'`{name}{value}`' for name in option.opts)} | {option.help} |".replace("\\", "")


def _as_code(shape: str) -> str:
    """Return the shape of an answer with the parts that programs read as code."""
    return re.sub(r"\[?\{[^}]*\}\]?", lambda match: f"`{match[0]}`", re.sub(r"(--[a-z-]+)", r"`\1`", shape))


def policies() -> Iterator[str]:
    """Yield the table of policies."""
    yield from ("| policy | prunes an entry with | |", "|---|---|---|")
    yield from (f"| `{name}` | `{policy.rule}` | {policy.about} |" for name, policy in POLICIES.items())


def telemetry() -> Iterator[str]:
    """Yield a line for each event of another program, with what it adds."""
    yield from map(_telemetry, TABLE)


def _telemetry(row: Row) -> str:
    values = {SUCCESS: "+1?", FLAG: "true?", STATED: "+1 if it reports success"}
    counters = (f"`{name}` {values[by] if isinstance(by, str) else f'+{by}'}" for name, by in row.counters.items())
    gauges = (
        ", also as ".join(filter(None, [f"`{name}`", ", ".join(f"`{key}`" for key in keys)]))
        for name, keys in row.gauges.items()
    )
    others = {
        "`session.ended`, with the version that the session ran under": row.ends_session,
        "one metric, from its `name` and `value`": row.is_named_metric,
        "all numbers in it": row.is_metrics_object,
    }
    added = "; ".join(chain(counters, gauges, (text for text, is_added in others.items() if is_added)))
    of = f" of {row.component}" if row.component else ""
    return f"- {', '.join(f'`{type_}`' for type_ in row.types)}{of}: {added}"
