"""The templates of prompts: the user's own, else the packaged ones. Standard library only: hooks may load it."""

from __future__ import annotations

import os

PLAYBOOK = "playbook.txt"
"""The template around the entries that a session is given."""
MARKS = "marks.txt"
"""What asks an agent for marks, which follows that template: a line about ratings, one about lessons, a limit."""


def load_template(name: str = PLAYBOOK) -> str:
    """Return a template: the user's in ``~/.claude/prompts`` where it can be read, else the packaged one."""
    import tallybook.prompts

    own = os.path.join(os.path.expanduser("~"), ".claude", "prompts", name)
    # Anything but a file, a pipe for example, could block the reader.
    if os.path.isfile(own):
        try:
            return _read(own)
        except OSError:
            pass
    return _read(os.path.join(os.path.dirname(tallybook.prompts.__file__), name))


def _read(path: str) -> str:
    # A byte that is not UTF-8 costs a character, not the session's playbook.
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
