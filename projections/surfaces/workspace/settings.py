"""The settings file ``tallybook.toml``: the settings, and the values that apply in a project.

Invalid settings are ignored and reported by ``doctor``. Standard library only: a hook reads the settings from a cache,
because loading a TOML reader would take longer than the hook itself.
"""

from __future__ import annotations

from contextlib import suppress
from operator import eq, le
import os

from tallybook.ledger.errors import CannotWriteError, Problem, TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, loads, sha256
from tallybook.ledger.playbook_constants import FLAT, MAX_HOLD, SECTIONED
from tallybook.ledger.storage import caches, disk
from tallybook.projections.surfaces.workspace import project as projects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tallybook.projections.surfaces.workspace.project import AnyProject

MAX_BUDGET_CHARS = 10_000
"""Claude Code puts a longer text into a file, and shows the model only its beginning."""
MAX_TOKENS_PER_DAY = 1_000_000_000
MAX_MODEL_CHARS = 200
FORMATS = (FLAT, SECTIONED)
CURATION = ("propose", "apply")
LEARNED = ("add", "propose", "off")
"""What becomes of a lesson, the most that it can become first."""
MARKS = ("rate", "propose", "off")
"""What becomes of an agent's marks, the most that it can become first."""
RATERS = ("none", "claude", "codex", "gemini", "openai", "command")
MAX_NAME_CHARS = 200
MAX_WORDS = 100
MAX_ADDRESS_CHARS = 2_000
# A model on this machine needs no certificate.
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class Settings(NamedTuple):
    """The settings that apply in a project.

    Attributes:
        budget_chars: Characters of the playbook that a session is given at most, 0 to 10,000; 0 for nothing.
        by_task: Whether each prompt is given the entries that fit it, instead of the best of all at the start.
        format: How ``playbook.json`` is written: flat, the specification's format, or sections, the later one.
        subagents: Whether a subagent of Claude Code or Copilot is given the playbook as well.
        rater: Who reflects on a session, one of RATERS.
        model: The model that does; empty for the rater's own choice.
        address: Where the rater ``openai`` sends a session; empty for nowhere.
        key_variable: The environment variable that holds the key of that address; empty where it needs none.
        command: The words of the rater ``command``; none for no such rater.
        answer_key: The key of what that command prints as a JSON object; empty where it prints the answer alone.
        learned: What becomes of an agent's lessons, one of LEARNED.
        marks: What becomes of an agent's marks, one of MARKS.
        marks_unattended: Whether a session that no person watches is asked for marks as well.
        on_stop: Whether a session awaits reflection after every stop as well.
        tokens_per_day: Tokens that reflections may use in a day, 0 to 1,000,000,000.
        write: Whether a model may rate and add by `tallybook mcp`.
        may: What becomes of a curator's operations: propose, or apply to entries that are not protected.
        hold: With which probability a session is not given what an open question is about, 0 to 0.5; 0 for never.
    """

    budget_chars: int = 8_000
    by_task: bool = False
    format: str = FORMATS[0]
    subagents: bool = False
    rater: str = RATERS[0]
    model: str = ""
    address: str = ""
    key_variable: str = ""
    command: Sequence[str] = ()
    answer_key: str = ""
    learned: str = LEARNED[1]
    marks: str = MARKS[0]
    marks_unattended: bool = False
    on_stop: bool = False
    tokens_per_day: int = 500_000
    write: bool = True
    may: str = CURATION[0]
    hold: float = 0


def is_encrypted_or_local(address: object) -> bool:
    """Say whether an address is https, or on this machine; one with a password or a query is neither."""
    text = address if isinstance(address, str) and len(address) <= MAX_ADDRESS_CHARS else ""
    if not text.isascii() or not text.isprintable() or any(char in text for char in " @?#\\"):
        return False
    return is_local(text) or (text.startswith("https://") and _host(text) != "")


def is_local(address: str) -> bool:
    """Say whether an address is on this machine."""
    return address.startswith(("http://", "https://")) and _host(address) in _LOCAL_HOSTS


def _host(address: str) -> str:
    place = address.partition("://")[2].partition("/")[0]
    host, _, port = place.rpartition(":")
    return host if port.isdigit() else place


def _is_model(value: Any, most: int) -> bool:
    # It goes to a command line, where a name that begins with a hyphen would be an option.
    return _is_text(value, most) and value.isprintable() and " " not in value and value[:1] != "-"


def _is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most


def _is_command(value: Any, most: int) -> bool:
    is_list = isinstance(value, list | tuple) and len(value) <= most
    return is_list and all(isinstance(word, str) and "\0" not in word for word in value)


def _is_variable(value: Any, most: int) -> bool:
    # A key itself is not a name, and does not count.
    return _is_text(value, most) and (not value or (value.isascii() and value.isidentifier()))


_TYPES: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "flag": ("true or false", lambda value, _: isinstance(value, bool)),
    "whole": ("a whole number from 0 to {:,}", lambda value, most: type(value) is int and 0 <= value <= most),
    "share": ("a number from 0 to {:g}", lambda value, most: type(value) in {int, float} and 0 <= value <= most),
    "word": ("one of {}", lambda value, words: isinstance(value, str) and value in words),
    "model": ("a model's name in quotes, at most {} characters", _is_model),
    "address": (
        "an address in quotes, such as https://api.example.com/v1, with http only on this machine",
        lambda value, _: value == "" or is_encrypted_or_local(value),
    ),
    "variable": ("the name of an environment variable in quotes, not the key itself", _is_variable),
    "command": ('a command as a list of at most {} words, such as ["llm", "-m", "{{model}}"]', _is_command),
    "text": ("a text in quotes, at most {} characters", _is_text),
}
"""Type of a setting → its valid values in words, and whether a value from TOML is one, up to the rule's limit."""


class Rule(NamedTuple):
    """The rule for one setting.

    Attributes:
        type: A key of _TYPES.
        limit: The most, or the words, that are valid.
        narrows: Where it spends what is the user's: says whether a project's value spends no more than the user's own,
            the second one; a project's value that does counts, no other. None where nothing is spent.
    """

    type: str
    limit: Any = None
    narrows: Callable[[Any, Any], bool] | None = None

    def fits(self, value: object) -> bool:
        """Return whether a value from TOML is valid."""
        return _TYPES[self.type][1](value, self.limit)

    @property
    def expected(self) -> str:
        """Return the valid values in words."""
        words = isinstance(self.limit, tuple)
        return _TYPES[self.type][0].format(", ".join(f'"{word}"' for word in self.limit) if words else self.limit)


SETTINGS: dict[tuple[str, str], Rule] = {
    ("ledger", "own"): Rule("flag"),
    ("playbook", "budget_chars"): Rule("whole", MAX_BUDGET_CHARS),
    ("playbook", "by_task"): Rule("flag"),
    ("playbook", "format"): Rule("word", FORMATS),
    ("playbook", "subagents"): Rule("flag"),
    ("reflection", "rater"): Rule("word", RATERS, lambda new, old: new in {RATERS[0], old}),
    ("reflection", "model"): Rule("model", MAX_MODEL_CHARS, eq),
    # A cloned file could send sessions, or another key of the environment, to an address of its author's.
    ("reflection", "address"): Rule("address", None, eq),
    ("reflection", "key_variable"): Rule("variable", MAX_NAME_CHARS, eq),
    ("reflection", "command"): Rule("command", MAX_WORDS, eq),
    ("reflection", "answer_key"): Rule("text", MAX_NAME_CHARS),
    ("reflection", "learned"): Rule("word", LEARNED, lambda new, old: LEARNED.index(new) >= LEARNED.index(old)),
    ("reflection", "marks"): Rule("word", MARKS, lambda new, old: MARKS.index(new) >= MARKS.index(old)),
    ("reflection", "marks_unattended"): Rule("flag", None, le),
    ("reflection", "on_stop"): Rule("flag"),
    ("reflection", "tokens_per_day"): Rule("whole", MAX_TOKENS_PER_DAY, le),
    ("mcp", "write"): Rule("flag", None, le),
    ("curation", "may"): Rule("word", CURATION, lambda new, old: new in {CURATION[0], old}),
    ("lift", "hold"): Rule("share", MAX_HOLD, lambda new, _: new == 0),
}
"""Section and key → the rule; the key is its field in Settings, but for the one that the search for a project reads."""

_RULES = {key: rule for (_, key), rule in SETTINGS.items() if key in Settings._fields}
SPENDING = {key: rule.narrows for key, rule in _RULES.items() if rule.narrows is not None}
"""Field that spends what is the user's → whether a project's value spends no more than another."""

_SECTIONS = frozenset(section for section, _ in SETTINGS)
_MAX_CACHE_BYTES = 64 * 1024
_FAULTS = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, TallybookError)


class SettingsFile(NamedTuple):
    """The content of one settings file.

    Attributes:
        values: Field → value, of the valid settings.
        wrong: The invalid settings, each with its place and what was expected.
        unknown: Sections and keys that this version does not know.
        is_read: False where the file could not be read at all.
    """

    values: Mapping[str, Any]
    wrong: tuple[Problem, ...] = ()
    unknown: tuple[str, ...] = ()
    is_read: bool = True


def read(project: AnyProject, *, store: bool = True) -> Settings:
    """Return the settings that apply in a project, from the cache if possible; no problem of a file is an error.

    Args:
        project: The project.
        store: Whether to write the cache; a command that may write nothing does not.
    """
    # Missing files are listed as well, so that a new one counts at once.
    places = []
    for path in files(project):
        try:
            status = os.stat(path)
            places.append((path, status.st_mtime_ns, status.st_size))
        except (OSError, ValueError):
            places.append((path, 0, -1))
    if all(size < 0 for _, _, size in places):
        return Settings()
    cache = None
    with suppress(OSError, TallybookError):
        if (folder := caches.find_folder(project.ledger)) is not None:
            digest = sha256("\n".join(path for path, _, _ in places).encode("utf-8", "surrogatepass")).hexdigest()[:32]
            cache = os.path.join(folder, f"settings-{digest}.json")
    settings = None if cache is None else _load_cached(cache, places)
    if settings is None:
        contents = {path: load(path) for path, _, size in places if size >= 0}
        settings = merge(contents)
        # Who may read a file can change without a trace in its size or time.
        if store and cache is not None and all(content.is_read for content in contents.values()):
            text = dumps({"files": places, "values": settings._asdict()})
            # Without it, the files are read again next time.
            with suppress(OSError, TallybookError):
                caches.make_folder(os.path.dirname(cache), project.ledger)
                disk.replace_cache_file(cache, text.encode("utf-8", "surrogatepass"))
    return settings


def merge(contents: Mapping[str, SettingsFile]) -> Settings:
    """Merge the settings of several files, those that take precedence first.

    Nobody chooses the files of a repository by cloning it: they can spend no more than the user's own settings allow.
    """
    users = users_file()
    settings = Settings()
    for path, content in reversed(list(contents.items())):
        spending = {} if path == users else SPENDING
        for field, value in content.values.items():
            if field not in spending or spending[field](value, getattr(settings, field)):
                settings = settings._replace(**{field: value})
    return settings


def files(project: AnyProject) -> list[str]:
    """Return the paths of the settings files, those that take precedence first.

    They are those of the folders from where the search for the project began up to the project, or, in a linked
    worktree, up to its top; then the project's; then the user's.
    """
    root = os.path.realpath(project.root)
    folders = projects.repository_folders(os.path.realpath(project.start or root))
    if root in folders:
        folders = folders[: folders.index(root)]
    paths = []
    for folder in (*folders, root):
        with suppress(CannotWriteError):
            paths.append(os.path.join(projects.claude_folder(folder), projects.SETTINGS_PLACE))
    return list(dict.fromkeys([*paths, users_file()]))


def users_file() -> str:
    """Return the path of the user's own settings, which hold in every project; a link to it is followed."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), projects.CLAUDE)
    return os.path.realpath(os.path.join(folder, projects.SETTINGS_PLACE))


# One file


def load(path: str) -> SettingsFile:
    """Read a settings file; a missing file has no settings."""
    try:
        data = disk.read_file(path, projects.MAX_SETTINGS_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return SettingsFile({})
    except (OSError, ValueError, CannotWriteError) as error:
        return SettingsFile({}, (Problem(path, f"cannot be read: {disk.reason(error)}"),), is_read=False)
    # Slow to load: only once a file has changed.
    import tomllib

    try:
        return _check(tomllib.loads(data.decode("utf-8-sig")), path)
    except UnicodeDecodeError:
        return SettingsFile({}, (Problem(path, "is not UTF-8 text; save it as UTF-8"),))
    except (ValueError, RecursionError) as error:
        return SettingsFile({}, (Problem(path, f"is not TOML: {error}"),))


def _check(document: Mapping[str, Any], path: str) -> SettingsFile:
    """Return the valid and the invalid settings of a document."""
    values: dict[str, Any] = {}
    wrong, unknown = [], []
    # What is unknown is not wrong: a later version may know it.
    for section, inner in document.items():
        if section not in _SECTIONS:
            unknown.append(f"[{section}]")
        elif not isinstance(inner, dict):
            wrong.append(Problem(path, f"{section}: expected a section, [{section}]"))
        else:
            for key, value in inner.items():
                rule = SETTINGS.get((section, key))
                if rule is None:
                    unknown.append(f"[{section}] {key}")
                elif not rule.fits(value):
                    wrong.append(Problem(path, f"[{section}] {key}: expected {rule.expected}"))
                elif key in _RULES:
                    # As in the defaults, which never change.
                    values[key] = tuple(value) if isinstance(value, list) else value
    return SettingsFile(values, tuple(wrong), tuple(unknown))


# The cache


def _load_cached(cache: str, places: Sequence[tuple[str, int, int]]) -> Settings | None:
    """Return the settings from the cache, None if it is of other files or of earlier content."""
    with suppress(*_FAULTS):
        cached = loads(disk.read_file(cache, _MAX_CACHE_BYTES).decode("utf-8", "surrogatepass"))
        values = cached["values"]
        if cached["files"] == list(map(list, places)) and values.keys() == _RULES.keys():
            values["command"] = tuple(values["command"])
            # The values of a cache are checked like those of the files.
            return Settings(**values) if all(rule.fits(values[field]) for field, rule in _RULES.items()) else None
    return None
