"""Reading a project's scoring-config.yaml: any content is a configuration, or a one-line error."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tallybook.ledger.errors import BadInputError
from tallybook.projections.scores.config_file import read_config
from tallybook.projections.surfaces.scores.configuration import MAX_BYTES, MAX_DEPTH, PLACE, default, load
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

HINT = "; `tallybook score --config` shows every key with its default"
NO_YAML = f"{PLACE}: is not valid YAML: "


def write(project: Path, own: str | bytes) -> Path:
    """Write a project's own configuration; return its path."""
    path = project / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(own if isinstance(own, bytes) else own.encode())
    return path


def refusal(project: Path, own: str | bytes | None = None) -> str:
    """Return the error for a configuration, for the present content or for a new one."""
    if own is not None:
        write(project, own)
    with pytest.raises(BadInputError) as caught:
        load(Project(project))
    line = str(caught.value)
    assert 1 == len(line.splitlines())
    assert line.isprintable()
    return line


def test_the_file_is_merged_into_the_default(project: Path) -> None:
    """One key changes one thing."""
    write(project, "scoring:\n  thresholds:\n    warning: 75\n")
    assert [75, 60, 50] == [level.below for level in load(Project(project)).levels]


def test_an_invalid_key_is_named_with_its_file(project: Path) -> None:
    """The line has the place, the fault, and the remedy."""
    expected = f"{PLACE}: scoring.trends.short_term_days must be a number, not 'seven'{HINT}"
    assert expected == refusal(project, "scoring: {trends: {short_term_days: seven}}")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        # Each of these is found in the file, before any key is asked for.
        ("scoring:\n  enabled: true\n  title: x\n  enabled: false\n", "the key 'enabled' twice, at line 4, column 3"),
        ("scoring: {}\nscoring: {}\n", "the key 'scoring' twice, at line 2, column 1"),
        ("scoring: {components: {a: {name: x, 'name': y}}}", "the key 'name' twice, at line 1, column 37"),
        ('{"a\\nb": 1, "a\\nb": 2}', r"the key 'a\nb' twice, at line 1, column 13"),
        ("scoring: [", "while parsing a flow node, "),
        ("scoring: {enabled: true", "while parsing a flow mapping, "),
        (
            "scoring:\n\tenabled: true",
            "while scanning for the next token, found character ",
        ),
        ("a: *nowhere", "found undefined alias"),
        ("a: 1\n---\nb: 2", "expected a single document in the stream, but found another document, at line 2, column "),
        ("{[a]: 1}", "while constructing a mapping, found unhashable key, at line 1, column 2"),
        ("{{a: b}: 1}", "while constructing a mapping, found unhashable key, at line 1, column 2"),
        ("a: 2026-13-45", "month must be in 1..12"),
        ("a: 1" + "0" * 5000, "Exceeds the limit (4300 digits)"),
        (b"a: \xff", "unacceptable character #x00ff: invalid "),
        (b"a: \x00", "unacceptable character #x0000: "),
        ("a: \x1b[31m", "unacceptable character #x001b: "),
        # What only a program would write.
        *(
            (f"a: !!{tag} ''", f"the tag tag:yaml.org,2002:{tag}, which is not supported, at line 1, column 4")
            for tag in ("int", "float", "bool", "timestamp", "binary", "python/name:os.system")
        ),
        ("a: !!map [b]", "the tag tag:yaml.org,2002:map, which is not supported, at line 1, column 4"),
        ("a: !own {b: 1}", "the tag !own, which is not supported, at line 1, column 4"),
        ("a: &a {b: 1}\nc: {<<: *a}", "the key <<, which is not supported, at line 2, column 5"),
        ("[" * 500, f"it is nested more than {MAX_DEPTH} deep, at line 1, column {MAX_DEPTH + 1}"),
        ("{a: " * 250_000, f"it is nested more than {MAX_DEPTH} deep, at line 1, column {4 * MAX_DEPTH + 1}"),
        ("- " * 100_000, f"it is nested more than {MAX_DEPTH} deep, at line 1, column {2 * MAX_DEPTH + 1}"),
    ],
    ids=range(28),
)
def test_yaml_that_is_not_plain_is_refused(project: Path, own: str | bytes, expected: str) -> None:
    """Broken, repeated or excessive YAML is refused with fault and place."""
    assert NO_YAML + expected == refusal(project, own)[: len(NO_YAML + expected)]


def test_yaml_that_is_nested_without_end_is_refused(project: Path) -> None:
    """Half a million opened lists are refused in one line, by the library or by us, whichever looks first."""
    answer = refusal(project, "[" * 500_000)
    assert (NO_YAML, 0) == (answer[: len(NO_YAML)], answer.count("\n"))


def test_a_file_that_is_too_big_is_refused(project: Path) -> None:
    """A configuration of more than a mebibyte is refused; one of exactly that size is read."""
    write(project, b"#" * MAX_BYTES)
    assert read_config(default()) == load(Project(project))
    assert refusal(project, b"#" * (MAX_BYTES + 1)).startswith(f"{PLACE}: ")


def test_a_link_is_not_followed(project: Path, tmp_path: Path) -> None:
    """A link in a cloned repository makes no other file of the user a configuration; nor does a dangling one."""
    target = tmp_path / "elsewhere.yaml"
    path = write(project, "")
    path.unlink()
    path.symlink_to(target)
    assert f"{PLACE}: cannot be read: is a symbolic link" == refusal(project)
    target.write_text("scoring: {}")
    assert f"{PLACE}: cannot be read: is a symbolic link" == refusal(project)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes in folders")
def test_a_pipe_is_not_waited_for(project: Path) -> None:
    """A pipe without a writer in its place is refused at once."""
    path = write(project, "")
    path.unlink()
    os.mkfifo(path)
    assert f"{PLACE}: cannot be read: is not a regular file" == refusal(project)
