"""The README against the tables in the code: what it lists is what there is."""

from __future__ import annotations

import json
from pathlib import Path
import re
import shlex
import subprocess
import tomllib

import pytest

from command_line import verbs
from reference_model import extraction
from tallybook.ledger import errors
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.line import CONTINUED
from tallybook.ledger.telemetry.mapping import GAUGES, MARK, OK, SAID, TABLE, Row
from tallybook.projections.comparison.conditions import COMPARED, FIELDS, STATUSES
from tallybook.projections.playbook.prune import POLICIES
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import SETTINGS, Settings
from transcripts import run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    """Return the README's text below a heading, up to the next one of any level."""
    return README.split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]


def first_cells(text: str) -> list[str]:
    """Return the first cell of each row of the tables in a text."""
    return [row.split("|")[1].strip() for row in text.splitlines() if row.startswith("| ") and "---" not in row]


def test_every_verb_is_in_the_reference() -> None:
    """The table of verbs lists the commands that there are, and no others."""
    cells = [cell for cell in first_cells(section("Commands")) if cell.startswith("`")]
    assert sorted(verbs()) == sorted(cell.strip("`").split()[0] for cell in cells)


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_option_is_in_the_reference(verb: str) -> None:
    """An option that only one verb or two have stands in that verb's row."""
    (cell,) = [c for c in first_cells(section("Commands")) if c.strip("`").split()[0] == verb]
    known = {"--json", "--rater", "--session", "--agent", "--model", "--key"}
    params = [param for param in verbs()[verb].params if not getattr(param, "hidden", False)]
    options = {opt for param in params for opt in param.opts if opt.startswith("--")}
    assert options - known == set(re.findall(r"--[a-z-]+", cell))


def test_every_kind_is_in_the_reference() -> None:
    """The table of kinds lists those that are written, and no others."""
    named = set(re.findall(r"`([a-z]+\.[a-z]+)`", section("The line")))
    assert {*EVENT_TYPES, CONTINUED} == named


def test_every_test_that_is_named_is_there() -> None:
    """The table of promises names tests that exist."""
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", README)
    assert [] == [
        (file, test) for file, test in named if f"def {test}" not in (ROOT / "tests" / file).read_text(encoding="utf-8")
    ]
    assert len(named) > 20


def test_every_exit_code_is_in_the_reference() -> None:
    """The table of exit codes has every code that an error carries."""
    codes = {cls.exit_code for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "exit_code")}
    assert {0, *codes} == {int(cell) for cell in first_cells(section("Commands")) if cell.isdigit()}


def test_every_setting_is_in_the_reference() -> None:
    """The table of settings has those that there are, with their defaults."""
    rows = re.findall(r"^\| `\[(\w+)\] (\w+)` \| `(.*?)` \|", section("Settings"), re.MULTILINE)
    assert list(SETTINGS) == [(section_, key) for section_, key, _ in rows]
    written = tomllib.loads("\n".join(f"{key} = {value}" for _, key, value in rows))
    assert {"own": False} | Settings()._asdict() == written


def test_every_policy_is_in_the_reference() -> None:
    """The table of policies has those that there are, with rule and meaning."""
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \| (.*?) \|$", section("What if, and since when"), re.MULTILINE)
    assert [(name, policy.rule, policy.about) for name, policy in POLICIES.items()] == rows


def test_every_part_of_a_condition_is_in_the_reference() -> None:
    """The table of conditions has each status, field and comparison that there is."""
    text = section("What if, and since when")
    assert set(STATUSES) == set(re.findall(r"`(\w+)\(NAME\)`", text))
    assert set(FIELDS) == set(re.findall(r"`NAME\.(\w+)", text))
    assert set(COMPARED) == set(re.findall(r"`([<>=!]+)`", text))


def test_every_event_of_telemetry_is_in_the_reference() -> None:
    """The table of telemetry has a row for each of the code's, with its types and with what becomes of them."""
    rows = section("Feeding scores").split("| event | adds |\n|---|---|\n")[1].strip().splitlines()
    assert [telemetry_row(row) for row in TABLE] == rows


def telemetry_row(row: Row) -> str:
    """Return a row of the code's table as the README shows it."""
    values = {OK: "+1?", MARK: "true?", SAID: "+1 where it says that it went well"}
    said = [f"`{name}` {values[by] if isinstance(by, str) else f'+{by}'}" for name, by in row.adds.items()]
    said += [
        ", also as ".join(filter(None, [f"`{name}`", ", ".join(f"`{key}`" for key in keys)]))
        for name, keys in row.takes.items()
    ]
    said += ["`session.ended`, with its version"] if row.ends else []
    said += ["the metric of its `name` and `value`"] if row.named else []
    said += ["all numbers that it brings"] if row.whole else []
    of = f" of {row.of}" if row.of else ""
    return f"| {', '.join(f'`{type_}`' for type_ in row.types)}{of} | {'; '.join(said)} |"


def test_every_measure_is_in_the_reference() -> None:
    """The section on feeding names each measure that telemetry may carry, a pair by its measure."""
    named = set(re.findall(r"`([a-z_]+)`", section("Feeding scores")))
    assert set() == {name for name in GAUGES if not name.endswith(("_count", "_total"))} - named


def test_every_dependency_has_its_reason() -> None:
    """The table of dependencies names what the package installs, alone and with the extras for users."""
    listed = {cell.strip("`") for cell in first_cells(section("Dependencies")) if cell.startswith("`")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["anthropic"], *extras["sql"]]
    assert {re.split(r"[<>=~ ]", name)[0] for name in wanted} == listed


def test_commands_of_the_first_screen_exist() -> None:
    """The two commands of the first screen are scripts that the repository ships."""
    commands = re.findall(r"^sh (\S+)", README[: README.index("## How to")], re.MULTILINE)
    assert [".ci/demo", ".ci/test"] == commands
    assert [] == [command for command in commands if not (ROOT / command).is_file()]


def test_three_commands_lead_to_a_session_that_is_told(project: Path) -> None:
    """Behind the installation they are typed here as they stand; then an agent's session begins."""
    commands = re.search(r"```sh\npip install \.[^\n]*\n(.*?)```", README, re.DOTALL)
    assert commands is not None
    for line in commands[1].splitlines():
        verb, *words = shlex.split(line, comments=True)
        done = run(words)
        assert ("tallybook", 0) == (verb, done.returncode), done.stderr
    (hook,) = json.loads((project / ".claude" / "settings.json").read_bytes())["hooks"]["SessionStart"][0]["hooks"]
    payload = json.dumps({"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1"})
    words = ["sh", "-c", hook["command"]]
    told = subprocess.run(words, input=payload, capture_output=True, text=True, check=True)
    assert "[kpt_001] helpful=0 harmful=0 :: Quote ids as strings." in told.stdout


SESSIONS = (
    ("3f1a", extraction(new=["Run the migrations before the tests."])),
    ("71bc", extraction(("kpt_015", "helpful"))),
    *[("9d0e", extraction(("kpt_015", "harmful")))] * 3,
    ("a2c4", extraction(("kpt_004", "helpful"))),
)
"""What happened before the investigation in the README, on top of the legacy playbook of the demo."""


def test_the_investigation_is_what_the_program_says(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of it is typed here, and answers as it stands there, but for the times."""
    monkeypatch.setenv("COLUMNS", "110")
    place = Project(project)
    place.playbook.write_bytes((ROOT / "tests" / "data" / "legacy-playbook.json").read_bytes())
    for session, payload in SESSIONS:
        commands.record(place, payload, {"rater": "reflector", "session": session})
    (told,) = re.findall(r"```text\n(\$ tallybook why run the migrations\n.*?)```", README, re.DOTALL)
    said = []
    for line in re.findall(r"^\$ tallybook (.*)$", told, re.MULTILINE):
        done = run(shlex.split(line))
        assert ("", 0) == (done.stderr, done.returncode)
        said.append("\n".join(row.rstrip() for row in f"$ tallybook {line}\n{done.stdout}".splitlines()))
    assert without_times(told) == without_times("\n\n".join(said) + "\n")


def without_times(text: str) -> str:
    """Return a text with every minute as another one."""
    return re.sub(r"20\d\d-\d\d-\d\d \d\d:\d\d", "2026-11-22 13:29", text)


def test_python_example_runs(project: Path) -> None:
    """The example of changing old code over runs as it stands, and its rating is an event."""
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (project / ".claude").mkdir(exist_ok=True)
    (project / ".claude" / "playbook.json").write_text('{"key_points": ["Use type hints"]}', encoding="utf-8")
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - the documentation is what is tested
    assert '"helpful": 1' in (project / ".claude" / "playbook.json").read_text(encoding="utf-8")
