"""Reading YAML that a person wrote, strictly: a key that comes twice, or what only a program would write, is refused.

PyYAML is loaded late: few commands read any.
"""

from __future__ import annotations

from typing import Any, Final

MAX_DEPTH: Final = 40
"""How deep a document may be nested: the library's C part recurses without a limit of its own, and would crash."""


def parsed(data: bytes) -> Any:
    """Return what YAML says, None where it says nothing.

    Raises:
        ValueError: It is no YAML, has a key twice, is nested too deeply, or has a tag or a merge key; in one line.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """A loader that refuses a key that comes twice, of which others take the last one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as the library calls it
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} twice", key.start_mark)
                seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
            return super().construct_mapping(node, deep)

    try:
        _refuse_what_no_person_writes(yaml, data, base)
        return yaml.load(data, Loader)  # noqa: S506 - a safe loader, and stricter
    except yaml.MarkedYAMLError as error:
        raise ValueError(_at(", ".join(filter(None, (error.context, error.problem))), error.problem_mark)) from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _refuse_what_no_person_writes(yaml: Any, data: bytes, loader: Any) -> None:
    """Refuse what the library answers with a crash, an error of its own insides, or gigabytes of memory."""
    depth = 0
    for event in yaml.parse(data, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ValueError(_at(f"it is nested more than {MAX_DEPTH} deep", event.start_mark))
        if getattr(event, "tag", None) is not None:
            raise ValueError(_at(f"the tag {event.tag}, which is not taken here", event.start_mark))
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            raise ValueError(_at("the key <<, which is not taken here", event.start_mark))


def _at(what: str, mark: Any) -> str:
    what = " ".join(what.split())
    return what if mark is None else f"{what}, at line {mark.line + 1}, column {mark.column + 1}"
