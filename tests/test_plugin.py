"""The plugin of Claude Code and Codex, and Gemini's extension: their files, and sessions in the real clients."""

from __future__ import annotations

from collections.abc import Iterator
import json
import os
from pathlib import Path
import re
import shlex
import subprocess
import sys
import time
import tomllib
from typing import Any, NamedTuple

import pytest

from helpers.agent_settings import CLAUDE
from helpers.clients import OFFLINE, find_client
from helpers.commands import ROOT
from helpers.documentation import HOOKS, chapter
from helpers.events import list_events
from helpers.stub_models import ModelReply, ModelRequest, StubModel, stub_model
from tallybook.projections.surfaces.agents import gemini
from tallybook.projections.surfaces.cli.main import VERBS
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

PLUGIN = ROOT / "prompts" / "plugin"
EXTENSION = ROOT / "prompts" / "extension"
PROMPTS = ROOT / "prompts"
PAYLOAD = b'{"hook_event_name": "SessionStart", "session_id": "s1"}'
EVENTS = [(PLUGIN, event) for event in CLAUDE.events] + [(EXTENSION, event) for event in gemini.EVENTS]


def load(*parts: str | Path) -> Any:
    """Return a JSON file of the repository."""
    return json.loads(ROOT.joinpath(*parts).read_text(encoding="utf-8"))


def hooks(folder: Path) -> dict[str, Any]:
    """Return the hook of each event."""
    return {
        event: hook
        for event, (group,) in load(folder, "hooks", "hooks.json")["hooks"].items()
        for hook in group["hooks"]
    }


def run(line: str, folder: Path) -> tuple[int, str, str]:
    """Run a command line with only one folder and the system's own on PATH: exit code, output, errors."""
    env = os.environ | {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", line], input=PAYLOAD, capture_output=True, check=False, env=env)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_all_have_the_version_of_the_package() -> None:
    """The plugin, its row in the marketplace, and the extension; the marketplace names the plugin's folder."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    plugin, extension = load(PLUGIN, ".claude-plugin", "plugin.json"), load(EXTENSION, "gemini-extension.json")
    (row,) = load(".claude-plugin", "marketplace.json")["plugins"]
    assert [version] * 3 == [plugin["version"], row["version"], extension["version"]]
    assert 1 == len({plugin["description"], row["description"], extension["description"]})
    assert PLUGIN == ROOT / row["source"]


def texts(pattern: str) -> dict[str, str]:
    """Return packaged files by the name of their command, which a skill has as its folder."""
    paths = {path: path.parent if path.stem == "SKILL" else path for path in PROMPTS.glob(pattern)}
    return {named.stem: path.read_text(encoding="utf-8") for path, named in paths.items()}


def as_toml(front: str, body: str) -> str:
    """Return a slash command in the form of Gemini CLI."""
    body = re.sub("^!`(.*)`$", r"!{\1}", body, flags=re.MULTILINE).replace("$ARGUMENTS", "{{args}}")
    return f"description = {json.dumps(front)}\nprompt = '''\n{body}'''\n"


def as_skill(name: str, front: str, body: str) -> str:
    """Return a slash command as a skill, which an agent runs itself: without arguments."""
    body = "\n\n".join(part for part in body.split("\n\n") if "$ARGUMENTS" not in part)
    body = re.sub("^!`(.*)`$", r"the output of `\1`; run it first.", body, flags=re.MULTILINE)
    return f"---\nname: {name}\ndescription: {front}\n---\n\n{body}"


def test_a_slash_command_says_the_same_in_every_form() -> None:
    """Plugin, extension and the files that `init` copies have one text for a command, whose verbs there are."""
    commands, parts = texts("commands/*.md"), {}
    for name, text in commands.items():
        _, front, body = text.split("---\n", 2)
        parts[name] = (re.findall("^description: (.*)$", front, re.MULTILINE)[0], body.lstrip("\n"))
        assert {*re.findall(r"Bash\(tallybook ([a-z-]+)", front)} <= {*VERBS}
    assert commands == texts("plugin/commands/*.md")
    toml = {name: as_toml(*part) for name, part in parts.items()}
    assert [toml, toml] == [texts("commands/*.toml"), texts("extension/commands/*.toml")]
    assert {name: as_skill(name, *part) for name, part in parts.items()} == texts("skills/*/SKILL.md")


def test_the_skill_is_one_text() -> None:
    """Plugin and extension have the same skill, named after its folder."""
    of_plugin, of_extension = (
        (folder / "skills" / "tallybook" / "SKILL.md").read_bytes() for folder in (PLUGIN, EXTENSION)
    )
    assert of_plugin == of_extension
    assert of_plugin.startswith(b"---\nname: tallybook\ndescription: ")


def test_hooks_call_every_event_that_tallybook_handles() -> None:
    """The plugin has the events of `init`, the extension those that mean something of Gemini."""
    assert [[*CLAUDE.events], [*gemini.EVENTS]] == [[*hooks(PLUGIN)], [*hooks(EXTENSION)]]


def test_no_hook_waits_longer_than_its_agent_allows() -> None:
    """Claude Code and Codex count seconds, and Codex allows 3 at a session's end; Gemini counts milliseconds."""
    times = {event: hook["timeout"] for event, hook in hooks(PLUGIN).items()}
    assert dict.fromkeys(CLAUDE.events, 10) | {"SessionEnd": 3} == times
    assert {10_000} == {hook["timeout"] for hook in hooks(EXTENSION).values()}


@pytest.mark.parametrize(("folder", "event"), EVENTS)
def test_every_hook_calls_the_command_on_the_path(tmp_path: Path, folder: Path, event: str) -> None:
    """Each passes its payload to `tallybook hook`, and answers with what that answers."""
    command = tmp_path / "tallybook"
    command.write_text('#!/bin/sh\necho "$@"; cat\n', encoding="utf-8")
    command.chmod(0o755)
    assert (0, "hook\n" + PAYLOAD.decode(), "") == run(hooks(folder)[event]["command"], tmp_path)


@pytest.mark.parametrize(("folder", "event"), EVENTS)
def test_without_the_command_one_line_says_so_and_nothing_fails(tmp_path: Path, folder: Path, event: str) -> None:
    """A session's start answers one field, which all three agents show to the user; later hooks are silent."""
    code, out, errors = run(hooks(folder)[event]["command"], tmp_path)
    assert (0, "") == (code, errors)
    if event == "SessionStart":
        (message,) = json.loads(out).values()
        assert {"systemMessage": message} == json.loads(out)
        assert message.startswith("Tallybook is not on PATH, ")
    else:
        assert "" == out


ENTRY = "[kpt_001] helpful=0 harmful=0 :: Quote ids as strings."
SKILL = "Use when a task depends on what earlier sessions of this project learned"
MISSING = "Tallybook is not on PATH, so this session gets no playbook"
FOLDERS = {
    "ROOT": str(ROOT),
    "PLUGIN": str(ROOT / "prompts" / "plugin"),
    "EXTENSION": str(ROOT / "prompts" / "extension"),
}
"""Word of a command below → the folder that it stands for."""


class PluginClient(NamedTuple):
    """A client.

    Attributes:
        install: The documented commands that install, after its name.
        session: What begins a session without a terminal.
        prompt: A prompt that names a slash command or a skill.
        expands_to: A part of that command's or skill's text.
        remove: The commands that remove.
        settings: Its settings file, below the home folder.
        preset: What the settings hold before; ADDRESS stands for the model's address.
        environment: Variables that it needs; ADDRESS as above.
    """

    install: tuple[str, ...]
    session: str
    prompt: str
    expands_to: str
    remove: tuple[str, ...]
    settings: str
    preset: str
    environment: dict[str, str]


CLAUDE_CLIENT = PluginClient(
    ("plugin validate --strict PLUGIN", "plugin marketplace add ROOT", "plugin install tallybook@tallybook"),
    "-p PROMPT",
    "/tallybook:playbook kpt_001",
    "The user asks: kpt_001",
    ("plugin uninstall tallybook@tallybook", "plugin marketplace remove tallybook"),
    ".claude/settings.json",
    "{}",
    {
        "ANTHROPIC_BASE_URL": "ADDRESS",
        "ANTHROPIC_API_KEY": "sk-ant-stub",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
)
CODEX = PluginClient(
    ("plugin marketplace add ROOT", "plugin add tallybook@tallybook"),
    "exec --dangerously-bypass-hook-trust --skip-git-repo-check PROMPT",
    "$tallybook:tallybook kpt_001",
    "# The project's playbook",
    ("plugin remove tallybook@tallybook", "plugin marketplace remove tallybook"),
    ".codex/config.toml",
    """model = "stub"
model_provider = "stub"

[model_providers.stub]
name = "stub"
base_url = "ADDRESS/v1"
wire_api = "responses"
env_key = "STUB_KEY"
""",
    {"STUB_KEY": "stub"},
)
GEMINI = PluginClient(
    ("extensions validate EXTENSION", "extensions install EXTENSION --consent"),
    "--model gemini-2.5-flash --yolo -p PROMPT",
    "/playbook kpt_001",
    "The user asks: kpt_001",
    ("extensions uninstall tallybook",),
    ".gemini/settings.json",
    '{"security": {"auth": {"selectedType": "gemini-api-key"}}}',
    {"GOOGLE_GEMINI_BASE_URL": "ADDRESS", "GEMINI_API_KEY": "stub", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
)
TABLE = {"claude": CLAUDE_CLIENT, "codex": CODEX, "gemini": GEMINI}


class ClientProject(NamedTuple):
    """A project, and a client in it.

    Attributes:
        project: The project.
        home: The home folder, with the client's settings.
        model: The model that the client asks.
        name: The client's command.
        environment: The variables of its processes; no folder on PATH has Tallybook.
        program: The path of its command.
    """

    project: Project
    home: Path
    model: StubModel
    name: str
    environment: dict[str, str]
    program: Path

    @property
    def settings(self) -> str:
        """Return the text of the client's settings."""
        return (self.home / TABLE[self.name].settings).read_text(encoding="utf-8")

    def run(self, line: str, path: str = "", prompt: str = "") -> str:
        """Run the client, and return what it printed; ``path`` is a folder that comes first on PATH."""
        words = [(FOLDERS | {"PROMPT": prompt}).get(word, word) for word in line.split()]
        done = subprocess.run(
            [self.program, *words],
            cwd=self.project.root,
            env=self.environment | {"PATH": f"{path}{os.pathsep}{self.environment['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout + done.stderr

    def kinds(self) -> list[str]:
        """Return the kinds of the events that hooks have recorded."""
        return [event["kind"] for event in list_events(self.project) if event["by"]["rater"] == "tallybook"][1:]


@pytest.mark.parametrize("name", TABLE)
def test_the_documentation_has_the_commands_that_are_run_here(name: str) -> None:
    """The table of plugins names each of them, in this order."""
    (row,) = [line for line in chapter(HOOKS, "Plugins").splitlines() if f"`{name} " in line and line[0] == "|"]
    client = TABLE[name]
    lines = [line for line in (*client.install, *client.remove) if " validate " not in line]
    documented = [
        line.replace("DIR/prompts/extension", "EXTENSION").replace("DIR", "ROOT") for line in re.findall("`(.*?)`", row)
    ]
    assert [f"{name} {line}" for line in lines] == documented


@pytest.fixture(params=TABLE)
def place(request: pytest.FixtureRequest, project: Path) -> Iterator[ClientProject]:
    """Return a project with one entry, and a client with a home of its own; skip where the client is absent."""
    name = request.param
    program = find_client(name)
    home, client = Path(os.environ["HOME"]), TABLE[name]
    commands.add(here := Project(project), "Quote ids as strings.", {"rater": "human"})

    def reply(_: ModelRequest) -> ModelReply:
        return ModelReply("Done, following [kpt_001].")

    with stub_model(reply) as model:
        settings = home / client.settings
        settings.parent.mkdir()
        settings.write_text(client.preset.replace("ADDRESS", model.address), encoding="utf-8")
        keep = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        others = [folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, "tallybook").exists()]
        own = OFFLINE | {key: value.replace("ADDRESS", model.address) for key, value in client.environment.items()}
        yield ClientProject(here, home, model, name, keep | own | {"PATH": os.pathsep.join(others)}, program)


def test_a_session_has_the_playbook_once_and_its_citation_is_recorded(
    place: ClientProject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Installed by its documented commands, the hooks inject it and record a citation; removed, nothing is left of it.

    The skill is there as well, and the slash command or the skill that the prompt names.
    """
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "tallybook"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m tallybook "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    client = TABLE[place.name]
    for line in client.install:
        place.run(line, str(folder))
    assert place.run(client.session, str(folder), client.prompt).count("Done, following [kpt_001].")
    (asked,) = place.model.requests
    assert [1, True, 1] == [asked.text.count(ENTRY), SKILL in asked.text, asked.text.count(client.expands_to)]
    # Gemini does not wait for its last hook, and a busy ledger has an event recorded later.
    recorded = {"playbook.injected", "point.cited", "reflection.requested"}
    # Claude Code writes a slash command as a text of its own: this session has no prompt, and is not measured.
    recorded |= {"session.measured"} if place.name != "claude" else set()
    deadline = time.monotonic() + 60
    while not recorded <= set(place.kinds()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sorted(recorded) == sorted(set(place.kinds()))
    assert 1 == place.kinds().count("playbook.injected") == place.kinds().count("point.cited")
    for line in client.remove:
        place.run(line, str(folder))
    left = place.settings
    assert "tallybook" not in left
    if place.name != "codex":
        assert json.loads(client.preset) == {key: value for key, value in json.loads(left).items() if value}


def test_without_the_command_the_session_goes_on_and_says_so(place: ClientProject) -> None:
    """One line says what is missing, nothing is injected or recorded, and the model is asked as ever."""
    client = TABLE[place.name]
    for line in client.install:
        place.run(line)
    shown = place.run(client.session, prompt="Say done.")
    seen = "\n".join([shown, *(path.read_text(errors="replace") for path in place.home.rglob("*.jsonl"))])
    # Without a terminal Codex shows no message; an answer that it does not take makes the hook fail.
    assert ("hook: SessionStart Completed" if place.name == "codex" else MISSING) in seen
    (asked,) = place.model.requests
    assert 0 == asked.text.count(ENTRY)
    assert [] == place.kinds()
