"""A simulated month of marks on a real ledger, printed as two tables; exits with 1 if the first misses its bounds.

python -m tests.month [WORLDS]

Each world is a project: a hook's injection gives a session the playbook, its transcript cites what it followed and
ends in marks, the worker reads it, and once a week a person reviews. No model is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
import os
from pathlib import Path
from random import Random
import re
import sys
import tempfile
from typing import Final, NamedTuple

import attrs
import pytest

_TESTS: Final = str(Path(__file__).resolve().parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)

from helpers.transcripts import Script, ask_again  # noqa: E402 - the path comes first
from tallybook.projections.history.review import CONTESTED, DISPUTED, LEFT  # noqa: E402 - as above
from tallybook.projections.surfaces.agents.table import Payload  # noqa: E402 - as above
from tallybook.projections.surfaces.cli import review as reviews  # noqa: E402 - as above
from tallybook.projections.surfaces.hooks import injection  # noqa: E402 - as above
from tallybook.projections.surfaces.reflection import worker  # noqa: E402 - as above
from tallybook.projections.surfaces.reflection.worker import Plan  # noqa: E402 - as above
from tallybook.projections.surfaces.workspace.project import Project, find_paths  # noqa: E402 - as above
from tallybook.projections.surfaces.writing import commands  # noqa: E402 - as above

WORLDS: Final = 2
SESSIONS_A_DAY: Final = 5
DAYS: Final = 30
WEEK: Final = 7
RELEVANT: Final = 0.25
"""The share of sessions to which an entry is relevant; one that is told it follows and cites it then."""
WRONG: Final = 0.1
PERSON_IS_RIGHT: Final = 0.85
FOLLOWED: Final = 10
LEAST_BAD_GONE: Final = 0.9
MOST_GOOD_GONE: Final = 0.02
HUMAN: Final = {"rater": "human"}
TYPED: Final = "typed"
AUTHORS: Final = {TYPED: HUMAN, "by a model": {"rater": "reflector"}}
GOOD, BAD = "good", "bad"
DECISIONS: Final = {CONTESTED: ("retire", "keep"), DISPUTED: ("accept", "reject"), LEFT: ("leave", "restore")}
"""Why a review shows an entry → what a person decides who finds it bad, and who finds it good."""


class Habits(NamedTuple):
    """How the agent marks.

    Attributes:
        rate: The share of followed entries that it marks.
        bias: The share of harmful marks that it writes as helpful instead.
        courtesy: The share of entries that it did not follow and calls helpful all the same.
        wrong: The share of marks that say the opposite of what is true.
    """

    rate: float
    bias: float = 0.0
    courtesy: float = 0.0
    wrong: float = WRONG


@attrs.define
class EntryFate:
    """An entry and its fate: how many lineages followed it while it was in the playbook, and whether it left."""

    author: str
    quality: str
    followed: int = 0
    is_gone: bool = False


@attrs.define
class MonthWorld:
    """A project with entries, and a month of sessions and reviews.

    Attributes:
        project: The project.
        rng: The source of chance.
        habits: How the agent marks.
        entries: Name → the entry.
        decisions: How many decisions the person took.
    """

    project: Project
    rng: Random
    habits: Habits
    entries: dict[str, EntryFate] = attrs.field(factory=dict)
    decisions: int = 0

    def add(self, count: int) -> None:
        """Add so many entries of each author and quality."""
        for author, by in AUTHORS.items():
            for quality in (GOOD, BAD):
                # No two texts resemble each other.
                texts = ["".join(self.rng.choices("abcdefghijklmnopqrstuvwxyz", k=18)) for _ in range(count)]
                outcome = commands.record(self.project, {"new_key_points": texts}, by)
                self.entries |= {name: EntryFate(author, quality) for name in outcome.added}

    def hold_session(self, number: int) -> None:
        """Let a session be told the playbook, follow what is relevant, and mark; the worker reads it then."""
        payload = Payload("SessionStart", f"session-{number}", name="SessionStart", agent="claude", source="startup")
        answer = injection.inject_playbook(find_paths(None, str(self.project.root)), payload)
        told = [name for name in re.findall(r"\[(kpt_\d+)\] helpful=", answer) if name in self.entries]
        followed = [name for name in told if self.rng.random() < RELEVANT]
        marks = [mark for name in told if (mark := self._mark(name, is_followed=name in followed))]
        cited = [f"I did as [{name}] says." for name in followed]
        script = Script(Path(os.environ["CLAUDE_CONFIG_DIR"], "projects", "month", f"{payload.session}.jsonl"))
        script.session = payload.session
        # A message has ten ratings at most.
        messages = [marks[place : place + 10] for place in range(0, len(marks), 10)] or [[]]
        script.user("Fix it.").agent("\n".join(["Done.", *cited]))
        for lines in messages:
            script.agent("\n".join(["All tests pass.", "", *lines]))
        ask_again(self.project, script)
        worker.work(self.project, Plan(folders=(script.path.parent,)))
        for name in followed:
            self.entries[name].followed += 1
        self._look()

    def _mark(self, name: str, *, is_followed: bool) -> str:
        if not is_followed:
            return f"[{name} helpful]" if self.rng.random() < self.habits.courtesy else ""
        if self.rng.random() >= self.habits.rate:
            return ""
        is_helpful = (self.entries[name].quality == GOOD) != (self.rng.random() < self.habits.wrong)
        if is_helpful or self.rng.random() < self.habits.bias:
            return f"[{name} helpful]"
        return f"[{name} harmful: it cost an hour]"

    def _look(self) -> None:
        names = commands.playbook(self.project).state.entries
        for name, entry in self.entries.items():
            entry.is_gone = name not in names

    def review(self) -> None:
        """Let a person decide about what agents' marks ask."""
        for item in reviews.find_items(self.project):
            if item.why in DECISIONS:
                is_bad = (self.entries[item.names[0]].quality == BAD) == (self.rng.random() < PERSON_IS_RIGHT)
                reviews.decide(self.project, item, DECISIONS[item.why][not is_bad], "", HUMAN)
                self.decisions += 1
        self._look()


def live(folder: Path, rng: Random, habits: Habits, *, count: int = 25, days: int = DAYS) -> MonthWorld:
    """Return a world after so many days, of which each week ends with a review."""
    (folder / ".claude").mkdir(parents=True)
    world = MonthWorld(Project(folder), rng, habits)
    world.add(count)
    for day in range(1, days + 1):
        for number in range(SESSIONS_A_DAY):
            world.hold_session(day * SESSIONS_A_DAY + number)
        if day % WEEK == 0:
            world.review()
    return world


@contextmanager
def home() -> Iterator[Path]:
    """Give a folder for projects, with a home in it that nothing else uses."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        for variable, folder in {"HOME": "", "CLAUDE_CONFIG_DIR": ".claude", "TALLYBOOK_CACHE_DIR": "cache"}.items():
            patch.setenv(variable, str(Path(name, folder)))
        yield Path(name)


def shares(entries: Iterable[EntryFate], quality: str) -> tuple[float, float]:
    """Return the share of entries that left within FOLLOWED lineages which followed them, and within the month."""
    chosen = [entry for entry in entries if entry.quality == quality]
    gone = [entry for entry in chosen if entry.is_gone]
    return sum(entry.followed <= FOLLOWED for entry in gone) / len(chosen), len(gone) / len(chosen)


def print_table(title: str, habits: Habits, worlds: int) -> list[EntryFate]:
    """Simulate worlds, print what became of their entries, and return these."""
    entries: list[EntryFate] = []
    decisions = 0
    with home() as folder:
        for seed in range(worlds):
            # A simulation is repeated, and nothing in it is secret.
            world = live(folder / f"{seed}", Random(seed), habits)  # noqa: S311
            entries += world.entries.values()
            decisions += world.decisions
    sys.stdout.write(f"{title}: {worlds} worlds, {decisions / worlds:.1f} decisions a month\n")
    for author, quality in dict.fromkeys((entry.author, entry.quality) for entry in entries):
        early, late = shares((entry for entry in entries if entry.author == author), quality)
        words = f"{early:.1%} left within {FOLLOWED} lineages that followed them, {late:.1%} within the month"
        sys.stdout.write(f"  {quality:4} entries, {author:10}: {words}\n")
    return entries


def main(worlds: int) -> int:
    """Print both tables; return 1 where a bound of the first is missed."""
    entries = print_table("A mark for one in two", Habits(0.5), worlds)
    # No mark prunes what a person typed: it leaves by the weekly review alone, and some nine lineages follow an entry
    # between two reviews. So it is bound by the month.
    _, typed = shares((entry for entry in entries if entry.author == TYPED), BAD)
    bad, _ = shares((entry for entry in entries if entry.author != TYPED), BAD)
    good, _ = shares(entries, GOOD)
    sys.stdout.write(f"  so early: {bad:.1%} of bad ones that marks may prune (at least {LEAST_BAD_GONE:.0%}), ")
    sys.stdout.write(f"{good:.1%} of all good ones (at most {MOST_GOOD_GONE:.0%}); ")
    sys.stdout.write(f"within the month: {typed:.1%} of bad ones that a person typed (at least {LEAST_BAD_GONE:.0%})\n")
    print_table("One in five, 30 % bias to helpful, 5 % courtesy", Habits(0.2, bias=0.3, courtesy=0.05), worlds)
    return 0 if min(bad, typed) >= LEAST_BAD_GONE and good <= MOST_GOOD_GONE else 1


if __name__ == "__main__":
    sys.exit(main(int(*sys.argv[1:]) or WORLDS))
