"""Reading ``scoring-config.yaml``: the packaged default, and a project's own laid over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ledger.errors import BadInputError
from projections.scores.configured import overlaid, read_config
from projections.scores.document import DocumentError, Reader
import prompts

if TYPE_CHECKING:
    from projections.scores.config import Config
    from projections.surfaces.project import Project

FILE: Final = "scoring-config.yaml"
PLACE: Final = f".claude/config/{FILE}"
MAX_BYTES: Final = 1024 * 1024
HINT: Final = "`tallybook score --config` shows every key with its default"


def load(project: Project) -> Config:
    """Return the configuration of a project's scores.

    Raises:
        BadInputError: Its own file is no YAML, or a key in it cannot be what it is; the message names the key.
    """
    document = default()
    path = project.root / PLACE
    if path.exists():
        own = _read(path)
        try:
            document = overlaid(document, dict(Reader.of(own if own is not None else {}, "").values))
            return read_config(document)
        except DocumentError as error:
            raise BadInputError(PLACE, str(error), HINT) from error
    return read_config(document)


def default() -> dict[str, Any]:
    """Return the packaged default, as YAML gives it."""
    document: dict[str, Any] = _parsed((Path(prompts.__file__).parent / FILE).read_bytes())
    return document


def _read(path: Path) -> Any:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInputError(PLACE, f"cannot be read: {error.strerror}", "let this user read it") from error
    if len(data) > MAX_BYTES:
        raise BadInputError(PLACE, f"has more than {MAX_BYTES:,} bytes", HINT)
    return _parsed(data)


def _parsed(data: bytes) -> Any:
    """Return what YAML says.

    Raises:
        BadInputError: It is no YAML, or has a key twice.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """A loader that refuses a key that comes twice, of which others take the last one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as the library calls it
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} twice", node.start_mark)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(data, Loader)  # noqa: S506 - a safe loader, and stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        raise BadInputError(PLACE, f"is no YAML: {error.problem}{where}", HINT) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadInputError(PLACE, f"is no YAML: {' '.join(str(error).split())}", HINT) from error
