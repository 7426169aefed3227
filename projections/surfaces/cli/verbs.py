"""The table of verbs: the group on the help screen, the module with the Click command, and a summary of one line.

The help screen and shell completion read this table alone, so that neither imports the modules.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
    """A verb of the command line.

    Attributes:
        name: The word after ``tallybook``.
        module: The module in ``projections/surfaces`` that holds its Click command.
        summary: A verb phrase of at most 60 characters; the command's docstring begins with it.
    """

    name: str
    module: str
    summary: str


GROUPS: Final = {
    "Every day": (
        Verb("show", "cli.everyday", "Show the playbook, now or as of a moment"),
        Verb("add", "cli.everyday", "Add an entry to the playbook"),
        Verb("rate", "cli.everyday", "Rate entries helpful, harmful or neutral"),
        Verb("record", "cli.everyday", "Record ratings and new entries from JSON"),
        Verb("why", "cli.everyday", "Explain an entry: its origin, its ratings and its fate"),
        Verb("needs-ratings", "cli.everyday", "List the entries that most need ratings"),
    ),
    "History": (
        Verb("log", "cli.log", "List events, newest last"),
        Verb("blame", "cli.history", "Show the event that last changed each entry"),
        Verb("graveyard", "cli.history", "List the entries that left the playbook, and why"),
        Verb("diff", "cli.diff", "Compare the playbook at two moments"),
        Verb("bisect", "cli.bisect", "Find the event that made a condition true"),
        Verb("what-if", "cli.whatif", "Replay history under another policy or without some events"),
        Verb("sql", "cli.history", "Query the ledger in SQL with DuckDB"),
    ),
    "Curation": (
        Verb("retire", "cli.curation", "Take entries out of the playbook"),
        Verb("restore", "cli.curation", "Bring retired, removed or pruned entries back"),
        Verb("pin", "cli.curation", "Protect entries from pruning"),
        Verb("unpin", "cli.curation", "Let pinned entries be pruned again"),
        Verb("reword", "cli.curation", "Change the text of an entry"),
        Verb("merge", "cli.curation", "Merge entries that say the same"),
        Verb("undo", "cli.curation", "Undo the last change, an event or a session"),
    ),
    "Scores": (
        Verb("metrics", "scores.cli.metrics", "Record metrics and benchmarks of the agent"),
        Verb("score", "scores.cli.score", "Show the scores of the agent"),
        Verb("gate", "scores.cli.gate", "Exit with 0 if the scores let the agent evolve, else 1"),
        Verb("baseline", "scores.cli.gate", "Set the value that a score is compared with"),
    ),
    "Upkeep": (
        Verb("doctor", "cli.upkeep", "Check the ledger, hooks and settings, and suggest fixes"),
        Verb("verify", "cli.upkeep", "Verify every event of the ledger"),
        Verb("replay", "cli.upkeep", "Rebuild playbook.json from the ledger"),
        Verb("import", "cli.upkeep", "Import an existing playbook.json"),
        Verb("redact", "cli.redact", "Erase a text from the ledger and its files"),
        Verb("completion", "cli.completion", "Print or install shell completion"),
    ),
    "Agents": (
        Verb("init", "install.cli", "Install the hooks, commands and settings of an agent"),
        Verb("uninstall", "install.cli", "Remove what init installed; the ledger stays"),
        Verb("reflect", "reflection.cli", "Let a model rate the sessions that await reflection"),
        Verb("hook", "cli.hook", "Handle one hook payload of an agent"),
    ),
}
"""Group on the help screen → its verbs, in the order of the screen."""

VERBS: Final = {verb.name: verb for verbs in GROUPS.values() for verb in verbs}
