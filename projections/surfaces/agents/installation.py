"""The files of each agent, a row each: where ``init`` writes its hooks, and in which form; hooks do not load it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallybook.ledger.fast_stdlib import dumps
from tallybook.projections.surfaces.agents import gemini, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Prompt(NamedTuple):
    """A packaged slash command.

    Attributes:
        name: Its name, without a slash.
        description: One line that says what it does.
        body: The text after the front matter, in the form of Claude Code.
        text: All of the file.
    """

    name: str
    description: str
    body: str
    text: str


class PromptFiles(NamedTuple):
    """Where an agent looks for slash commands or skills.

    Attributes:
        folder: Their folder in the project and at home; empty for the agent's own.
        path: The path of one in that folder, with ``{}`` for its name.
        form: Returns the text of its file.
    """

    folder: str
    path: str
    form: Callable[[Prompt], str]


class Installation(NamedTuple):
    """The files of an agent.

    Attributes:
        title: Its name for people.
        folder: Its folder in a project.
        home: The variable that names its folder of a user, and that folder below the home folder.
        file: The file with hooks, as a path in either folder.
        events: Its own name of each event that calls the hook → the timeout, in its own unit.
        timeout: The key of the timeout; empty if a hook is its command line alone.
        key: The key of the command line.
        is_nested: Whether an item of an event's list holds a list of hooks, or is a hook.
        document: The rest of a new file.
        signs: Files and folders of a project that show that the agent is used there; empty for its folder.
        programs: The commands that start it.
        prompts: Its slash commands or skills, None without any.
        other_hooks: Patterns of other files of a project that may hold its hooks.
        users_hooks: Patterns of other files in its folder of a user that may hold its hooks, plugins included.
        runs: The agent of the table whose project settings it runs as well; empty if there is none.
        keeps_line: Whether a changed command line makes it distrust the hook.
        record_of_trust: Its file, in the user's folder, that records which hooks are trusted; empty if there is none.
        remark: What ``init`` says about it, empty if there is nothing to say.
    """

    title: str
    folder: str
    home: tuple[str, str]
    file: str
    events: Mapping[str, int]
    timeout: str = "timeout"
    key: str = "command"
    is_nested: bool = True
    document: Mapping[str, Any] = {}
    signs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    prompts: PromptFiles | None = None
    other_hooks: tuple[str, ...] = ()
    users_hooks: tuple[str, ...] = ()
    runs: str = ""
    keeps_line: bool = False
    record_of_trust: str = ""
    remark: str = ""

    def item(self, line: str, timeout: int) -> dict[str, Any]:
        """Return an item of an event's list that calls a command line."""
        hook = {"type": "command", self.key: line, self.timeout: timeout} if self.timeout else {self.key: line}
        return {"hooks": [hook]} if self.is_nested else hook


def as_markdown(prompt: Prompt) -> str:
    """Return a slash command of Claude Code."""
    return prompt.text


def as_toml(prompt: Prompt) -> str:
    """Return a slash command of Gemini CLI."""
    lines = [f"!{{{command}}}" if (command := _command_in(line)) else line for line in prompt.body.split("\n")]
    # The body becomes a literal string of TOML, in which no backslash begins an escape.
    body = "\n".join(lines).replace("$ARGUMENTS", "{{args}}")
    return f"description = {dumps(prompt.description)}\nprompt = '''\n{body}'''\n"


def as_skill(prompt: Prompt) -> str:
    """Return a skill, which an agent runs itself: it runs the commands, and there are no arguments."""
    lines = [line for line in prompt.body.split("\n\n") if "$ARGUMENTS" not in line]
    body = "\n\n".join(
        f"the output of `{command}`; run it first." if (command := _command_in(line)) else line for line in lines
    )
    return f"---\nname: {prompt.name}\ndescription: {prompt.description}\n---\n\n{body}"


def _command_in(line: str) -> str:
    """Return the command whose output stands in place of a line, empty without one."""
    return line[2:-1] if line.startswith("!`") and line.endswith("`") else ""


def users_folder(files: Installation, home: str) -> str:
    """Return the agent's folder of a user with this home folder."""
    variable, folder = files.home
    return (os.environ.get(variable) if variable else "") or os.path.join(home, folder)


_CLAUDES_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
_SKILLS: Final = PromptFiles(".agents", "skills/{}/SKILL.md", as_skill)
FILES: Final = {
    table.CLAUDE: Installation(
        title="Claude Code",
        folder=".claude",
        home=("CLAUDE_CONFIG_DIR", ".claude"),
        file="settings.json",
        events=dict.fromkeys((*_CLAUDES_EVENTS, "SubagentStart", "SubagentStop", "PreCompact", "SessionEnd"), 10),
        programs=("claude",),
        prompts=PromptFiles("", "commands/{}.md", as_markdown),
        other_hooks=(".claude/settings.local.json",),
    ),
    "codex": Installation(
        title="Codex CLI",
        folder=".codex",
        home=("CODEX_HOME", ".codex"),
        file="hooks.json",
        # Of SessionEnd it cuts a longer timeout down to 3 seconds, and warns.
        events=dict.fromkeys((*_CLAUDES_EVENTS, "SubagentStop", "PreCompact"), 10) | {"SessionEnd": 3},
        programs=("codex",),
        # No folder of slash commands is known of it.
        prompts=_SKILLS,
        other_hooks=(".codex/config.toml",),
        users_hooks=("config.toml", "plugins/cache/*/*/*/hooks/hooks.json"),
        # Codex trusts a hook by the hash of its command and timeout, and skips a changed one without a word.
        keeps_line=True,
        record_of_trust="config.toml",
    ),
    "gemini": Installation(
        title="Gemini CLI",
        folder=".gemini",
        home=("", ".gemini"),
        file="settings.json",
        # Its timeouts are milliseconds.
        events=dict.fromkeys(gemini.EVENTS, 10_000),
        programs=("gemini",),
        prompts=PromptFiles("", "commands/{}.toml", as_toml),
        users_hooks=("extensions/*/hooks/hooks.json",),
    ),
    "copilot": Installation(
        title="Copilot CLI",
        folder=".github",
        home=("COPILOT_HOME", ".copilot"),
        file="hooks/tallybook.json",
        # Only names of events in this spelling come back in the payload.
        events=dict.fromkeys((*_CLAUDES_EVENTS, "SubagentStart", "PreCompact", "SessionEnd"), 10),
        timeout="timeoutSec",
        key="bash",
        is_nested=False,
        document={"version": 1},
        signs=(".github/hooks", ".github/copilot", ".github/copilot-instructions.md"),
        programs=("copilot",),
        prompts=_SKILLS,
        other_hooks=(".github/hooks/*.json", ".github/copilot/settings.json", ".github/copilot/settings.local.json"),
        users_hooks=("hooks/*.json", "settings.json"),
        runs=table.CLAUDE,
    ),
    # By the descriptions of others, as its module.
    "cursor": Installation(
        title="Cursor",
        folder=".cursor",
        home=("", ".cursor"),
        file="hooks.json",
        # As it is given nothing, only events with citations and ends are installed.
        events=dict.fromkeys(("postToolUse", "afterAgentResponse", "stop", "sessionEnd"), 0),
        timeout="",
        is_nested=False,
        document={"version": 1},
        programs=("cursor", "cursor-agent"),
        remark="is not given the playbook, because no answer of its hooks is known to reach the model; "
        "its hooks record which entries it cites",
    ),
}
"""Name of an agent of the table → its files."""
