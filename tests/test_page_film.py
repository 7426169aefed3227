"""The film of the page: at every moment it shows what the folds show, what `show --at` and `what-if` print."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.browser import play, read_page
from helpers.commands import Run
from helpers.events import HUMAN
from helpers.manual_edits import edit, read
from helpers.reference_model import extraction
from helpers.view_histories import FUTURES, history
from tallybook.ledger.records import Batch
from tallybook.projections.history.entry_history import entries_view
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.surfaces.page.film import MAX_MOMENTS, STATUSES, fold_film
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands


def shown(rows: dict[str, dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    """Return the playbook that the rows of a film show, in its order."""
    kept = sorted((row["place"], name) for name, row in rows.items() if STATUSES[row["status"]] == "kept")
    return [(name, rows[name]["text"], rows[name]["helpful"], rows[name]["harmful"]) for _, name in kept]


def check_every_moment(batches: list[Batch], most: int = MAX_MOMENTS) -> None:
    """Compare the film with a fold up to each moment: entries, order, texts, counts, and where each other name is."""
    film = fold_film(lambda: batches, most).part(with_texts=True)
    moments = {last: {**rows} for last, rows in play(film)}
    assert [batch.last for batch in batches[-most - 1 :]] == [*moments]
    for last, rows in moments.items():
        state = fold_history(entries_view(), lambda: batches, last)
        book = state.book
        assert (last, [attrs.astuple(point) for point in book.entries.values()]) == (last, shown(rows))
        for name in {*state.names, *rows}:
            row = rows.get(name, {"status": 0, "into": None, "flags": 0})
            status = STATUSES[row["status"]].replace("absent", "unknown")
            assert state.book.status_of(name) == status, name
            assert (name in book.pinned, name in book.pardons) == (bool(row["flags"] & 1), bool(row["flags"] & 2))
            assert (book.merged.get(name) if status == "merged" else None) == row["into"]
            if name in book.gone and name not in book.entries:
                assert attrs.astuple(book.gone[name]) == (name, row["text"] or "", row["helpful"], row["harmful"])


@given(stretches=FUTURES, most=st.integers(1, 9))
def test_every_moment_shows_what_a_fold_up_to_it_shows(stretches: list[list[Any]], most: int) -> None:
    """However few moments a page has, it agrees with a fold up to each of them."""
    check_every_moment(history(stretches), most)


STEPS = 60


def live(here: Project, run: Run, chance: Random) -> None:
    """Record a random history: ratings, curation, undos, redactions and manual edits."""
    for number in range(STEPS):
        names = [f"kpt_{n:03d}" for n in range(1, 13)]
        name, other = chance.sample(names, 2)
        step = chance.randrange(14)
        if number < 6 or step == 0:
            commands.add(here, f"guidance {number}", HUMAN)
        elif step == 1:
            run("undo", *([] if chance.random() < 0.5 else [f"--of=s{chance.randrange(3)}"]))
        elif step == 2:
            run("undo", str(chance.randrange(2, 40)))
        elif step == 3:
            run(*chance.choice([["retire"], ["restore"], ["pin"], ["pin", "--off"]]), name)
        elif step == 4:
            run("merge", name, other)
        elif step == 5:
            text = f"guidance {chance.randrange(number)}"
            run("redact", "--text", text, "--reason", "a name", "--yes")
        elif step == 6:
            doc = read(here)
            chance.shuffle(doc["key_points"])
            edit(here, doc, **{name: {"text": f"edited in step {number}", "harmful": chance.randrange(5)}})
            run("sync")
        else:
            rated = [(chance.choice(names), chance.choice(["helpful", "harmful", "harmful"])) for _ in range(6)]
            by = {"rater": "reflector", "session": f"s{chance.randrange(3)}"}
            commands.record(here, extraction(*rated), by)


def playbooks(film: dict[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """Return the entries that a film shows after each event at which a moment ends."""
    result = {}
    for last, rows in play(film):
        kept = sorted((row["place"], name) for name, row in rows.items() if STATUSES[row["status"]] == "kept")
        fields = ("text", "helpful", "harmful")
        result[last] = [{"name": name, **{key: rows[name][key] for key in fields}} for _, name in kept]
    return result


@pytest.mark.parametrize(("seed", "most"), [(0, 50_000), (1, 8)])
def test_the_page_at_a_moment_is_what_show_prints_at_it(
    project: Path, run: Run, seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each moment of a page, and the snapshot before its first one, has the entries of `show --at` in their order."""
    here, chance = Project(project), Random(seed)  # noqa: S311 - the same history in every run
    live(here, run, chance)
    monkeypatch.setattr("tallybook.projections.surfaces.page.document.MAX_MOMENTS", most)
    assert 0 == run("page", "-o", str(here.root / "page.html")).code
    meta, document = read_page((here.root / "page.html").read_text(encoding="utf-8"))
    film = document["film"]
    keys = ("name", "text", "helpful", "harmful")
    shown = playbooks(film)
    for last, entries in shown.items():
        points = commands.show(here, str(last))["key_points"]
        assert [{key: point[key] for key in keys} for point in points] == entries, last
    assert max(shown) == meta["counts"]["events"]
    if most == 8:
        older = meta["counts"]["moments"] - 8
        snapshot = f"{older} older moments, up to event {min(shown)}, are one snapshot"
        assert (9, True) == (len(shown), f"the page has the last 8 moments; {snapshot}" in meta["warnings"])
