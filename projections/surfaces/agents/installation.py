"""What the module of an agent says about its files: where ``init`` writes the hooks, and in which form.

Standard library only; hooks do not load it.
"""

from __future__ import annotations

import os
import sys

from tallybook.ledger.fast_stdlib import NamedTuple, dumps
from tallybook.projections.surfaces.agents import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


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
        group: Returns an item of an event's list, from a command line and a timeout.
        timeout: The key of the timeout; empty if it has none.
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
    group: Callable[[str, int], dict[str, Any]]
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


def load(name: str) -> Installation:
    """Return the files of an agent of the table."""
    table.load(name)
    files: Installation = sys.modules[f"{table.__package__}.{name}"].installation()
    return files


def nested_group(line: str, timeout: int) -> dict[str, Any]:
    """Return an item of an event's list as Claude Code, Codex and Gemini take it."""
    return {"hooks": [{"type": "command", "command": line, "timeout": timeout}]}


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
