"""The documentation: its tables agree with the code, its links lead somewhere, and its examples print what is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import json
import os
from pathlib import Path
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import click
import pytest

from helpers.commands import ROOT, package_folders, verbs
from helpers.documentation import (
    COMMANDS,
    CONTRIBUTING,
    FAULTS,
    FILES,
    FIRST,
    LEDGER,
    PAGES,
    TELEMETRY,
    VIEWS,
    CodeBlock,
    anchor,
    examples,
    first_cells,
    headings,
    prose,
    section,
)
from helpers.reference_model import extraction
from helpers.transcripts import COMMAND, run
from tallybook.ledger import errors
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.line import CONTINUED
from tallybook.ledger.telemetry.mapping import GAUGES
from tallybook.projections.history.conditions import COMPARED, COUNTS, STATUSES
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import SETTINGS, Settings
from tallybook.projections.surfaces.writing import commands


def test_what_the_code_knows_is_in_the_reference() -> None:
    """The commands, the policies and the table of telemetry are as the code has them; `cog -r` writes them."""
    pages = [str(ROOT / page) for page, text in PAGES.items() if "[[[cog" in text]
    assert 3 == len(pages)
    words = [sys.executable, "-m", "cogapp", "--check", "-I", str(ROOT / "tests"), *pages]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr


def test_every_kind_is_in_the_reference() -> None:
    """The table of kinds lists exactly those that are written."""
    named = set(re.findall(r"`([a-z]+\.[a-z]+)`", "\n".join(first_cells(section(LEDGER, "Event kinds")))))
    assert {*EVENT_TYPES, CONTINUED} == named


def test_the_example_of_a_line_has_the_documented_fields() -> None:
    """The example is one object of JSON, whose fields are in the table after it."""
    text = section(LEDGER, "The line")
    example = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert example is not None
    line = json.loads(example[1].replace("\u21e5", "\t"))
    fields = set(re.findall(r"`(\w+)`", "\n".join(first_cells(text))))
    assert set() == set(line) - fields
    assert {"seq", "id", "kind", "body", "chain"} < set(line)


def test_every_named_test_exists() -> None:
    """Tests that the documentation names, in its tables and in its commands, exist."""
    named = [name for page in PAGES.values() for name in re.findall(r"(test_\w+\.py)(?:::(test_\w+))?", page)]
    files = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
    assert [] == [
        (file, test)
        for file, test in named
        if file not in files or f"def {test}" not in files[file].read_text(encoding="utf-8")
    ]
    assert 20 < len(re.findall(r"`test_\w+\.py", section(FAULTS, "The promises")))


def test_every_exit_code_is_in_the_reference() -> None:
    """The table of exit codes has every code that an error carries."""
    codes = {cls.exit_code for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "exit_code")}
    assert {0, *codes} == {int(cell) for cell in first_cells(section(COMMANDS, "Exit codes")) if cell.isdigit()}


def test_every_setting_is_in_the_reference() -> None:
    """The table of settings lists all of them, with their defaults."""
    text = section(FILES, "Settings")
    rows = re.findall(r"^\| `\[(\w+)\] (\w+)` \| `(.*?)` \|", text, re.MULTILINE)
    assert list(SETTINGS) == [(section_, key) for section_, key, _ in rows]
    written = tomllib.loads("\n".join(f"{key} = {value}" for _, key, value in rows))
    assert {"own": False} | json.loads(json.dumps(Settings()._asdict())) == written


def test_every_part_of_a_condition_is_in_the_reference() -> None:
    """The table of conditions has each status, field and comparison."""
    text = section(VIEWS, "Conditions")
    assert set(STATUSES) == set(re.findall(r"`(\w+)\(NAME\)`", text))
    assert {*COUNTS, "text"} == set(re.findall(r"NAME\.(\w+)", text))
    assert len(COMPARED) == len(set(re.findall(r"`([<>=!]+)`", text)))


def test_every_measure_is_in_the_reference() -> None:
    """The names of metrics include each measure that telemetry may carry, a pair by its measure."""
    named = set(re.findall(r"`([a-z_]+)`", section(TELEMETRY, "Names of metrics")))
    assert set() == {name for name in GAUGES if not name.endswith(("_count", "_total"))} - named


def test_every_dependency_has_its_reason() -> None:
    """The table of dependencies names what the package installs, alone and with the extras for users."""
    listed = {cell.strip("`") for cell in first_cells(section(CONTRIBUTING, "Dependencies")) if cell.startswith("`")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["objects"], *extras["postgres"]]
    assert {re.split(r"[<>=~ \[]", name)[0] for name in wanted} == listed


def test_every_folder_of_modules_is_in_the_layout() -> None:
    """The layout names each folder of the package, where it lies in the repository."""
    roots = package_folders().values()
    folders = {str(path.parent.relative_to(ROOT)) for root in roots for path in root.rglob("__init__.py")}
    listed = {cell.strip("`/") for cell in first_cells(section(CONTRIBUTING, "The layout")) if cell.startswith("`")}
    assert folders | {"tests"} == listed


REFERENCE = sorted(set(PAGES) - {"CHANGELOG.md"})
MOST_LINES = 250


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_link_leads_somewhere(page: str) -> None:
    """A link within the repository names a file or folder that exists, and a heading that the page has."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(PAGES[page])):
        if re.match(r"[a-z]+://", target):
            continue
        path, _, heading = target.partition("#")
        place = (ROOT / page).parent / path if path else ROOT / page
        name = str(place.resolve().relative_to(ROOT))
        if not place.exists() or (heading and heading not in {anchor(text) for _, text in headings(name)}):
            broken.append(target)
    assert [] == broken


@pytest.mark.parametrize("page", sorted(PAGES))
def test_headings_differ(page: str) -> None:
    """No two headings of a page have the same link."""
    anchors = [anchor(text) for _, text in headings(page)]
    if page != "CHANGELOG.md":
        assert sorted(set(anchors)) == sorted(anchors)


def test_the_first_page_is_short() -> None:
    """A stranger reads it to the end."""
    assert MOST_LINES >= len(PAGES[FIRST].splitlines())


@pytest.mark.parametrize("page", REFERENCE)
def test_every_named_path_exists(page: str) -> None:
    """A file of the repository that a page names in code exists; files of a project are in the table of files."""
    paths = set(re.findall(r"`((?:ledger|projections|prompts|tests|\.ci)/[\w./-]+)`", prose(PAGES[page])))
    missing = {path for path in paths if "NAME" not in path and not (ROOT / path).exists()}
    assert set() == missing - set(re.findall(r"`(ledger/[\w./-]+)`", section(LEDGER, "Files")))


LEGACY = ROOT / "tests" / "data" / "legacy-playbook.json"
SESSION = "3f1a"
ELSEWHERE = ("jq", "git ", "psql", "pg_dump", "find ", "aws ")
"""Commands of other tools. These run them: test_history_log.py, test_cli_check.py, test_git_divisions.py,
test_sharing_git.py, tests/faults/share_power.py,
test_sharing_postgres.py, test_sharing_objects.py."""
OF_THE_CLONE = ("sh .ci/", ".ci/", ".venv/bin/", "python -m tests", "pip install")
"""How a line begins that installs something or works on the clone."""


def shell_lines(example: CodeBlock) -> list[str]:
    """Return the commands of a block of shell, each on one line and without comments."""
    lines = example.code.replace("\\\n", " ").splitlines()
    return [" ".join(re.sub(r"(^|\s)#.*", "", line).split()) for line in lines if line.strip()]


def blocks_of_the_command() -> list[CodeBlock]:
    """Return the blocks of shell that use Tallybook in a project."""
    others = (*OF_THE_CLONE, *ELSEWHERE)
    blocks = [block for block in examples("sh") if not any(line.startswith(others) for line in shell_lines(block))]
    # test_sharing_joins.py runs those that name a server.
    return [block for block in blocks if not re.search("://[A-Z]{2}", block.code)]


@pytest.fixture(scope="module")
def demo_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with the legacy playbook of the demo and a session after it."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / ".claude").mkdir()
    shutil.copy(LEGACY, folder / ".claude" / "playbook.json")
    payload = extraction(("kpt_001", "helpful"), new=["Run the migrations before the tests."])
    commands.record(Project(folder), payload, {"rater": "reflector", "session": SESSION})
    telemetry = folder / ".claude" / "logs" / "telemetry"
    telemetry.mkdir(parents=True)
    (telemetry / "a.jsonl").write_text('{"component": "ac01", "session_id": "s1", "metrics": {"startup_ms": 8000}}\n')
    return folder


def make_clone(project: Path) -> None:
    """Make a project a repository whose remote `origin` is an empty one beside it."""
    remote = project.parent / f"{project.name}-remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
    subprocess.run(["git", "init", "--quiet", project], check=True)
    subprocess.run(["git", "-C", project, "remote", "add", "origin", remote], check=True)


@pytest.mark.parametrize("block", blocks_of_the_command(), ids=lambda block: f"{block.page}:{block.code[:40].strip()}")
def test_a_block_of_commands_runs(block: CodeBlock, demo_project: Path, project: Path) -> None:
    """Every line of it exits with 0 in a project that has a playbook."""
    shutil.copytree(demo_project, project, dirs_exist_ok=True)
    bin_ = project.parent / f"{project.name}-bin"
    bin_.mkdir()
    script = bin_ / "tallybook"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m tallybook "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    code = block.code
    if "tallybook share git" in code:
        make_clone(project)
        # The page is for people at a terminal, who are asked.
        code = code.replace("tallybook share git", "tallybook share git --yes")
    environment = os.environ | {
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SESSION": SESSION,
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words of each complete ``tallybook`` command in a text's inline code."""
    for code in re.findall(r"`([^`\n]*)`", text):
        for part in re.findall(r"(?:^|\| )tallybook (.*?)(?: [|<&].*)?$", code):
            words = shlex.split(part, comments=True)
            if words[:1] == ["--project"]:
                words = words[2:]
            if words and words[0] not in {"[--project", "VERB", "help"} and not words[0].startswith("-"):
                yield words


@pytest.mark.parametrize("page", sorted(set(PAGES) - {"CHANGELOG.md"}))
def test_inline_commands_have_known_verbs_and_options(page: str) -> None:
    """A command within a sentence names a verb that exists, with options that it has."""
    found = list(commands_in(prose(PAGES[page]).replace("\\|", "")))
    assert [] == [words for words in found if words[0] not in verbs()]
    assert [] == [(words, option) for words in found for option in unknown_options(words)]


def unknown_options(words: Iterable[str]) -> list[str]:
    """Return the options of a command line that its verb does not have."""
    verb, *rest = words
    if rest and f"{verb} {rest[0]}" in verbs():
        verb = f"{verb} {rest.pop(0)}"
    known = {opt for param in verbs()[verb].params if isinstance(param, click.Option) for opt in param.opts}
    given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return [word for word in given if word not in known | {"--help", "--json", "--project"}]


def test_the_demo_explains_the_entry_as_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two records of .ci/demo lead to the story on the first screen, except for the times."""
    monkeypatch.setenv("COLUMNS", "130")
    shutil.copy(LEGACY, project / ".claude" / "playbook.json")
    demo = (ROOT / ".ci" / "demo").read_text(encoding="utf-8")
    payloads = re.findall(r"^record '(.*)'$", demo, re.MULTILINE)
    assert 2 == len(payloads)
    assert 0 == run(["import", ".claude/playbook.json"], cwd=project).returncode
    for payload in payloads:
        assert 0 == run(["record", "-"], given=payload).returncode
    (shown,) = [block for block in examples("text") if block.code.startswith("$ tallybook why kpt_014\n")]
    assert replace_times(shown.code) == replace_times(answers(shown.code))


def test_three_commands_lead_to_a_session_with_its_playbook(project: Path) -> None:
    """After the installation they run here as written; then an agent's session begins."""
    (block,) = [block for block in examples("sh") if block.page == FIRST and block.code.startswith("pip install .")]
    for line in block.code.splitlines()[1:]:
        verb, *words = shlex.split(line, comments=True)
        done = run(words)
        assert ("tallybook", 0) == (verb, done.returncode), done.stderr
    (hook,) = json.loads((project / ".claude" / "settings.json").read_bytes())["hooks"]["SessionStart"][0]["hooks"]
    payload = json.dumps({"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1"})
    words = ["sh", "-c", hook["command"]]
    done = subprocess.run(words, input=payload, capture_output=True, text=True, check=True)
    assert "[kpt_001] helpful=0 harmful=0 :: Quote ids as strings." in done.stdout


SESSIONS = (
    ("3f1a", extraction(new=["Run the migrations before the tests."])),
    ("71bc", extraction(("kpt_015", "helpful"))),
    *[("9d0e", extraction(("kpt_015", "harmful")))] * 3,
    ("a2c4", extraction(("kpt_004", "helpful"))),
)
"""What happened before the investigation, on top of the legacy playbook of the demo."""


def test_the_investigation_prints_the_answers_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of it runs here, and prints the answer shown, except for the times."""
    monkeypatch.setenv("COLUMNS", "110")
    shutil.copy(LEGACY, project / ".claude" / "playbook.json")
    for session, payload in SESSIONS:
        commands.record(Project(project), payload, {"rater": "reflector", "session": session})
    (shown,) = [block for block in examples("text") if block.code.startswith("$ tallybook why run the migrations\n")]
    assert replace_times(shown.code) == replace_times(answers(shown.code))


CURATED = {
    "evaluations": [],
    "operations": [
        {"type": "DELETE", "target_id": "kpt_014", "reason": "the cache was replaced"},
        {
            "type": "MERGE",
            "source_ids": ["kpt_002", "kpt_003"],
            "merged_text": "Use pathlib, and normalise names to NFC.",
            "reason": "both are about files",
        },
    ],
}
"""The changes that a reflection proposes in the day."""


def test_the_day_prints_the_answers_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Poisoned, proposed, tried by an agent, decided by a person, asked of lift, taken back: as shown."""
    monkeypatch.setenv("COLUMNS", "110")
    shutil.copy(LEGACY, project / ".claude" / "playbook.json")
    user = Path.home() / ".claude" / "config"
    user.mkdir(parents=True)
    (user / "tallybook.toml").write_text("[lift]\nhold = 0.2\n", encoding="utf-8")
    for session, payload in (*[("9d0e", extraction(("kpt_012", "harmful")))] * 3, ("c1f7", CURATED)):
        commands.record(Project(project), payload, {"rater": "reflector", "session": session})
    (shown,) = [block for block in examples("text") if "CLAUDECODE=1 tallybook proposals accept" in block.code]
    found = []
    for line in re.findall(r"^\$ (.*)$", shown.code, re.MULTILINE):
        mark, _, words = line.rpartition("tallybook ")
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | dict(re.findall(r"(\w+)=(\S+)", mark))
        command = [*COMMAND, *shlex.split(words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert bool(mark) == bool(done.returncode), done.stderr
        found.append("\n".join(row.rstrip() for row in f"$ {line}\n{done.stdout}{done.stderr}".splitlines()))
    assert replace_times(shown.code) == replace_times("\n\n".join(found) + "\n")


def test_the_own_playbook_answers_as_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of its example runs here and prints the answer shown, except for times and the ledger's id."""
    (project / "shop" / ".claude").mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project / "shop"))
    monkeypatch.setenv("COLUMNS", "120")
    (shown,) = [block for block in examples("text") if block.code.startswith("$ tallybook init --mine\n")]

    def plain(text: str) -> str:
        return re.sub(r"ledger [0-9a-f-]{20,}", "ledger ID", replace_times(text.replace(str(Path.home()), "~")))

    assert plain(shown.code) == plain(answers(shown.code))


def answers(shown: str) -> str:
    """Return a transcript of the commands of another, run one after the other, without blanks at the ends of lines."""
    found = []
    for line in re.findall(r"^\$ tallybook (.*)$", shown, re.MULTILINE):
        done = run(shlex.split(line))
        assert ("", 0) == (done.stderr, done.returncode)
        found.append("\n".join(row.rstrip() for row in f"$ tallybook {line}\n{done.stdout}".splitlines()))
    return "\n\n".join(found) + "\n"


def replace_times(text: str) -> str:
    """Return a text with every minute replaced by another."""
    return re.sub(r"20\d\d-\d\d-\d\d \d\d:\d\d", "2026-11-22 13:29", text)


def test_the_example_of_a_migration_runs(project: Path) -> None:
    """The example for existing code runs as written, and its rating is an event."""
    (example,) = [block for block in examples("python") if block.page == FIRST]
    (project / ".claude" / "playbook.json").write_text('{"key_points": ["Use type hints"]}', encoding="utf-8")
    exec(compile(example.code, FIRST, "exec"), {})  # noqa: S102 - the documentation is what is tested
    assert '"helpful": 1' in (project / ".claude" / "playbook.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("given", re.findall(r"```json\n +({.*})\n", section(TELEMETRY, "The input")))
def test_each_form_of_a_measurement_is_recorded(given: str, project: Path) -> None:
    """An object of the list of inputs, as written there, is recorded without a problem."""
    done = run(["score", "record", "--json"], given=given, cwd=project)
    answer = json.loads(done.stdout)
    assert (1, []) == (sum(answer["recorded"].values()), answer["problems"]), done.stderr
