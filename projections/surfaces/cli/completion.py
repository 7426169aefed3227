"""The verb `completion`: shell completion for bash, zsh and fish, printed or installed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

import click
from click.shell_completion import shell_complete

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.storage.disk import reason
from tallybook.projections.surfaces.cli.main import COMPLETE_VARIABLE, tallybook
from tallybook.projections.surfaces.console.output import say


class Shell(NamedTuple):
    """How a shell loads completion.

    Attributes:
        folder: The folder of its start file: the value of an environment variable, else a folder below the home folder.
        file: The start file.
        line: The line that loads completion; it asks the installed version, so that an upgrade needs no second line.
    """

    folder: tuple[str, str]
    file: str
    line: str


SHELLS: Final = {
    "bash": Shell(("HOME", ""), ".bashrc", 'eval "$(tallybook completion bash)"'),
    "zsh": Shell(("ZDOTDIR", ""), ".zshrc", 'eval "$(tallybook completion zsh)"'),
    "fish": Shell(
        ("XDG_CONFIG_HOME", ".config"), "fish/completions/tallybook.fish", "tallybook completion fish | source"
    ),
}


def install(shell: Shell) -> tuple[Path, bool]:
    """Append the line that loads completion to the shell's start file; return the file and whether it changed.

    Raises:
        CannotWriteError: The file cannot be read or written.
    """
    variable, below_home = shell.folder
    folder = os.environ.get(variable) or Path.home() / below_home
    path = Path(folder) / shell.file
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
        if shell.line in text.splitlines():
            return path, False
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(("\n" if text and not text.endswith("\n") else "") + shell.line + "\n")
    except OSError as error:
        raise CannotWriteError(path, reason(error), f"add this line yourself: {shell.line}") from error
    return path, True


@click.command(epilog="Example: tallybook completion bash --install")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.option("--install", "installing", is_flag=True, help="Add completion to the start file of the shell.")
def completion(*, shell: str, installing: bool) -> int:
    """Print or install shell completion.

    Without --install it prints the script that the shell evaluates.
    """
    if not installing:
        return shell_complete(tallybook, {}, "tallybook", COMPLETE_VARIABLE, f"{shell}_source")
    path, changed = install(SHELLS[shell])
    say(f"{path} {'loads' if changed else 'already loads'} completion; it takes effect in a new shell")
    return 0
