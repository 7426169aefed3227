"""What sessions are not given for a question of lift: draws by real hooks, once for a lineage."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
import stat
from typing import TYPE_CHECKING

import pytest

from helpers.hook_calls import START, call, opened_files, told
from helpers.lift import PROMPT, hold, hook, injections, load, measured, observe, six_entries
from tallybook.projections.surfaces.hooks import draws
from tallybook.projections.surfaces.hooks.injection import load_template
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from helpers.command_line import Run
    from tallybook.projections.lift.view import Lineage

ALL = tuple(f"kpt_{number:03d}" for number in range(1, 7))
COMPACTED = {**START, "source": "compact"}


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with six entries, whose user draws half of the sessions."""
    return six_entries(project)


def held_session(project: Project, *, is_held: bool = True) -> str:
    """Start sessions until one is drawn as wanted, and return it."""
    for number in range(100):
        session = f"{'held' if is_held else 'told'}-{number}"
        hook(project, session)
        if bool(injections(project)[-1].held) == is_held:
            return session
    raise AssertionError("no session was drawn so")


# Rule 4


@pytest.mark.parametrize(("own", "projects", "expected"), [(0, 0.5, 0), (0.2, 0.5, 0.2), (0.2, 0, 0), (0.2, 0.1, 0.2)])
def test_only_the_users_own_settings_withhold(project: Path, own: float, projects: float, expected: float) -> None:
    """Rule 4: a project's settings forbid holding with 0, and start or raise it with no number."""
    hold(own)
    hold(projects, project)
    assert expected == settings.read(Project(project)).hold


def test_holding_is_off_by_default(project: Path) -> None:
    """Rule 4: without a setting nothing is withheld."""
    assert 0 == settings.read(Project(project)).hold


def test_a_project_that_forbids_holding_stops_an_open_question(here: Project, run: Run) -> None:
    """Rule 4: from then on every session is given all, and no draw is recorded."""
    assert 0 == run("lift", "ask", "playbook").code
    hold(0, here.root)
    for number in range(8):
        hook(here, f"s{number}")
    assert [((), "", ())] * 8 == [(one.held, one.question, one.units) for one in injections(here)]


def test_without_holding_no_hook_looks_for_a_question(here: Project, run: Run) -> None:
    """Rule 4: with `hold = 0` a hook does not open the question's marker, at a start or a prompt by task."""
    run("lift", "ask", "playbook")
    prompt = {**PROMPT, "prompt": "run the linter"}
    for by_task, payload in (("false", START), ("true", prompt)):
        for number in (0.5, 0):
            hold(number)
            with (Path.home() / ".claude" / "config" / "tallybook.toml").open("a") as file:
                file.write(f"[playbook]\nby_task = {by_task}\n")
            opened = opened_files(payload, f"{number}-{by_task}")
            assert bool(number) == (draws.question_file(here) in opened)
    assert 4 == len(injections(here))


# Rule 5


def test_the_playbook_is_withheld_as_a_whole_but_for_what_is_pinned(here: Project, run: Run) -> None:
    """Rule 5: a held session is given the pinned entries alone, and their order and the others' are recorded."""
    run("pin", "kpt_002")
    run("lift", "ask", "playbook")
    held_session(here)
    held_session(here, is_held=False)
    unpinned = tuple(name for name in ALL if name != "kpt_002")
    assert {(("kpt_002",), unpinned), (ALL, ())} == {(one.names, one.held) for one in injections(here)}
    assert {("playbook",)} == {one.units for one in injections(here)}


def test_an_entry_that_is_pinned_later_is_no_longer_withheld(here: Project, run: Run) -> None:
    """Rule 5: pinning counts from the next session on, and unpinning too."""
    run("lift", "ask", "kpt_001")
    run("pin", "kpt_001")
    for number in range(8):
        hook(here, f"s{number}")
    assert [()] * 8 == [one.units for one in injections(here)]
    run("pin", "--off", "kpt_001")
    hook(here, "later")
    assert ("kpt_001",) == injections(here)[-1].units


def test_single_entries_are_drawn_each_by_itself(here: Project, run: Run) -> None:
    """Rule 5: of two entries one is told while the other is withheld, and nothing else is withheld."""
    run("lift", "ask", "kpt_001", "kpt_003")
    for number in range(24):
        hook(here, f"s{number}")
    assert {(), ("kpt_001",), ("kpt_003",), ("kpt_001", "kpt_003")} == {one.held for one in injections(here)}


def test_new_entries_are_drawn_as_one_group(here: Project, run: Run) -> None:
    """Rule 5: the entries without ratings are withheld together or not at all."""
    for name in ALL[:4]:
        run("rate", name, "helpful")
    run("lift", "ask", "new")
    for number in range(12):
        hook(here, f"s{number}")
    assert {(), ("kpt_005", "kpt_006")} == {one.held for one in injections(here)}
    assert {("new",)} == {one.units for one in injections(here)}


def test_nothing_is_withheld_from_fewer_than_five_entries(here: Project, run: Run) -> None:
    """Rule 5: a playbook that shrank after the question is given whole."""
    run("lift", "ask", "playbook")
    run("retire", "kpt_005", "kpt_006")
    for number in range(8):
        hook(here, f"s{number}")
    assert [((), ())] * 8 == [(one.held, one.units) for one in injections(here)]


# Rule 6


def test_a_lineage_is_drawn_once(here: Project, run: Run) -> None:
    """Rule 6: a resume, a compaction, a fork and its compaction and a subagent have the draw of the first session."""
    settings_file = here.claude / "config" / "tallybook.toml"
    settings_file.parent.mkdir(exist_ok=True)
    settings_file.write_text("[playbook]\nsubagents = true\n")
    run("lift", "ask", "playbook")
    for is_held in (True, False):
        session = held_session(here, is_held=is_held)
        before = len(injections(here))
        hook(here, session, {**COMPACTED, "prompt_id": "p1"})
        hook(here, session, {"hook_event_name": "SubagentStart", "agent_id": "a1"})
        hook(here, session, {**START, "source": "resume"})
        hook(here, f"fork-{is_held}", PROMPT)
        hook(here, f"fork-{is_held}", {**COMPACTED, "prompt_id": "p2"})
        later = [one for one in injections(here)[before:] if one.units]
        assert [(session, is_held, 0.5)] * 3 == [(one.lineage, bool(one.held), one.probability) for one in later]
        assert {session: is_held} == {
            name: one.units["playbook"] for name, one in load_lineages(here) if name == session
        }


def load_lineages(project: Project) -> list[tuple[str, Lineage]]:
    """Return the lineages of the only question."""
    (question,) = load(project).questions.values()
    return list(question.lineages.items())


def test_the_draw_is_an_hmac_with_a_secret_that_only_the_user_can_read(here: Project, run: Run) -> None:
    """Rule 6: HMAC-SHA-256 over question, lineage and unit; the secret is in the user's folder with mode 0600."""
    run("lift", "ask", "kpt_001", "kpt_002")
    path = Path(draws.secrets_file(here))
    assert Path.home() / ".claude" / "config" / "tallybook-lift" == path.parent
    assert (0o600, 0o700) == (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode) & 0o700)
    [(question, digits)] = json.loads(path.read_bytes()).items()
    for number in range(12):
        hook(here, f"s{number}")
    for one in injections(here):
        for unit in one.units:
            message = json.dumps([question, one.lineage, unit], separators=(",", ":")).encode()
            digest = hmac.new(bytes.fromhex(digits), message, hashlib.sha256).digest()
            drawn = (int.from_bytes(digest[:8], "big") >> 11) / 2**53
            assert (drawn < 0.5) == (unit in one.held)


def test_the_probability_of_a_lineage_is_that_of_its_first_injection(here: Project, run: Run) -> None:
    """Rule 6: another setting counts for the lineages that begin later."""
    run("lift", "ask", "playbook")
    hook(here, "s1")
    hold(0.2)
    hook(here, "s1", COMPACTED)
    hook(here, "s2")
    assert [0.5, 0.5, 0.2] == [one.probability for one in injections(here)]


def test_a_question_that_another_user_asked_withholds_nothing(here: Project, run: Run) -> None:
    """Rule 6: without the secret, as in a clone, sessions are given all and no draw is recorded."""
    run("lift", "ask", "playbook")
    Path(draws.secrets_file(here)).unlink()
    for number in range(8):
        hook(here, f"s{number}")
    assert [((), "")] * 8 == [(one.held, one.question) for one in injections(here)]


# Rule 7


def test_lineages_that_began_earlier_do_not_count(here: Project, run: Run) -> None:
    """Rule 7: a session from before the question is given all after a compaction, and so are its forks."""
    hook(here, "old")
    run("lift", "ask", "playbook")
    hook(here, "old", COMPACTED)
    hook(here, "old", {**START, "source": "resume"})
    hook(here, "fork", PROMPT)
    hook(here, "fork", COMPACTED)
    hook(here, "unknown", {**START, "source": "resume"})
    assert [("", ())] * 5 == [(one.question, one.held) for one in injections(here)]
    assert [] == load_lineages(here)


# Rule 10


def test_the_place_of_a_withheld_entry_is_not_refilled(here: Project, run: Run) -> None:
    """Rule 10: selection comes first; what did not fit is left out whether or not an entry is withheld."""
    for name in ALL[:3]:
        run("rate", name, "helpful")
    (here.claude / "config").mkdir(exist_ok=True)
    budget_chars = len(load_template(settings.Settings(marks="off"))) + 250
    (here.claude / "config" / "tallybook.toml").write_text(f"[playbook]\nbudget_chars = {budget_chars}\n")
    run("lift", "ask", "kpt_001")
    held_session(here)
    held_session(here, is_held=False)
    by_arm = {bool(one.held): one for one in injections(here)}
    assert 0 < by_arm[True].left_out["room"] == by_arm[False].left_out["room"]
    assert by_arm[False].names == tuple(sorted((*by_arm[True].names, "kpt_001")))


def test_parts_by_task_obey_the_draw_of_their_session(here: Project, run: Run) -> None:
    """Rule 10: where each prompt is given what fits it, the session's draw holds for every prompt."""
    (here.claude / "config").mkdir(exist_ok=True)
    (here.claude / "config" / "tallybook.toml").write_text("[playbook]\nby_task = true\n")
    run("lift", "ask", "playbook")
    answers = {}
    for number in range(12):
        session = f"s{number}"
        hook(here, session)
        answers[session] = hook(here, session, {**PROMPT, "prompt": "run the linter, read the logs", "prompt_id": "1"})
    drawn = {one.lineage: bool(one.held) for one in injections(here)}
    assert {True, False} == set(drawn.values())
    assert {session: not is_held for session, is_held in drawn.items()} == {
        session: bool(answer) for session, answer in answers.items()
    }


def test_a_prompt_that_selects_nothing_of_a_question_leaves_the_session_to_be_drawn(here: Project, run: Run) -> None:
    """Rule 7: where the first prompt has other entries, the session is drawn for at the prompt that selects one."""
    (here.claude / "config").mkdir(exist_ok=True)
    (here.claude / "config" / "tallybook.toml").write_text("[playbook]\nby_task = true\n")
    run("lift", "ask", "kpt_001")
    hook(here, "s1")
    for number, text in enumerate(("read the logs", "use type hints", "read the linter")):
        hook(here, "s1", {**PROMPT, "prompt": text, "prompt_id": str(number)})
    assert [(), ("kpt_001",)] == [one.units for one in injections(here)][:2]
    assert [("s1", ["kpt_001"])] == [(name, list(one.units)) for name, one in load_lineages(here)]


def test_real_hooks_draw_end_and_score(here: Project, run: Run) -> None:
    """Sessions that real processes draw end and are scored; with few of them the answer says so and nothing else."""
    run("lift", "ask", "playbook")
    answers = [told(call(START, f"s{number}")) for number in range(8)]
    assert [not one.held for one in injections(here)] == ["Use type hints" in answer for answer in answers]
    told_ones = 0
    for number, one in enumerate(injections(here)):
        told_ones += not one.held
        observe(here, f"s{number}", measured(8 * bool(one.held)))
    counts = f"{told_ones} with it and {8 - told_ones} without it have an outcome"
    said = run("lift").out
    assert f"  not known yet: too few sessions: {counts}, and at least 5 of each are needed\n" == said.split("\n", 1)[1]
