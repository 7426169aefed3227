"""A person's own playbook: who makes it, what its entries are called, and what a project can do about it (rule 23)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.hook_calls import START, call, told

if TYPE_CHECKING:
    from helpers.command_line import Run

OWN = "Only I may read this"
# A hook ends with 0, whatever its words are.


def own_folder() -> Path:
    """Return where the playbook is, without CLAUDE_CONFIG_DIR."""
    return Path.home() / ".claude" / "my-playbook"


def names(run: Run, *words: str) -> list[str]:
    """Return the names of the entries that `show` prints."""
    return [point["name"] for point in json.loads(run("show", "--json", *words).out)["key_points"]]


@pytest.fixture
def mine(project: Path, run: Run) -> Path:
    """Make a project with an entry and a playbook of one's own with one; return the latter's folder."""
    del project
    run("add", "Write tests")
    run("init", "--mine")
    run("add", "--mine", OWN)
    return own_folder()


@pytest.mark.usefixtures("project")
def test_only_init_mine_makes_it(run: Run) -> None:
    """No other command makes it, a dry run does not, and a second run changes nothing (rule 23)."""
    for words in (("show", "--mine"), ("add", "--mine", "One"), ("--mine", "rate", "my_001", "helpful")):
        assert (2, "tallybook: --mine: you have no playbook of your own; make one: tallybook init --mine\n") == (
            run(*words)[0],
            run(*words).err,
        )
    run("add", "One")
    run("init", "--user")
    run("init", "--mine", "--dry-run")
    assert not own_folder().exists()
    assert "created" == json.loads(run("init", "--mine", "--json").out)["changed"][0]["what"]
    before = (own_folder() / "ledger" / "events.jsonl").read_bytes()
    assert "left" == json.loads(run("--mine", "init", "--json").out)["left"][0]["what"]
    assert before == (own_folder() / "ledger" / "events.jsonl").read_bytes()


@pytest.mark.usefixtures("project")
def test_claude_config_dir_is_honoured(run: Run, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the variable names another folder for Claude's own files, the playbook is there (rule 23)."""
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    run("init", "--mine")
    run("add", "--mine", "One")
    assert ["my_001"] == names(run, "--mine")
    assert (folder / "my-playbook" / "ledger" / "events.jsonl").exists()
    assert not own_folder().exists()


@pytest.mark.usefixtures("mine")
def test_its_entries_are_named_my(run: Run, mine: Path, tmp_path: Path) -> None:
    """Added, imported and written by hand, its entries are `my_NNN`, and no name is used twice (rule 23)."""
    run("retire", "my_001", "--mine")
    run("--mine", "add", "Two")
    legacy = tmp_path / "legacy.json"
    legacy.write_text(json.dumps({"key_points": [{"name": "kpt_001", "text": "Three"}, "Four"]}), encoding="utf-8")
    run("import", str(legacy), "--mine")
    playbook = json.loads((mine / "playbook.json").read_text(encoding="utf-8"))
    playbook["key_points"].append({"name": "kpt_001", "text": "Five", "helpful": 0, "harmful": 0})
    (mine / "playbook.json").write_text(json.dumps(playbook), encoding="utf-8")
    run("record", "--mine", stdin=b'{"new_key_points": ["Six"], "evaluations": []}')
    assert [f"my_{number:03d}" for number in range(2, 7)] == names(run, "--mine")
    assert 0 == run("rate", "MY_2", "helpful", "--mine").code
    assert ["kpt_001"] == names(run)


@pytest.mark.usefixtures("mine")
def test_verbs_on_it_leave_the_project_alone(run: Run, project: Path) -> None:
    """Every verb with `--mine`, before or after the verb, works on it and changes no file of the project (rule 23)."""
    before = {path: path.read_bytes() for path in (project / ".claude").rglob("*") if path.is_file()}
    lines = """
    show; add Two; rate my_001 helpful; why my_001; review --list needs-ratings; log; show --last-change; show --gone
    diff 1; bisect count>1; what-if --policy final; pin my_001; pin --off my_001; reword my_001 Newer
    merge my_001 my_002; retire my_001
    restore my_001; undo; proposals; verify; replay --check; redact --text Newer --reason typo --yes --dry-run
    """
    for words in filter(None, (line.split() for line in lines.replace("\n", ";").split(";"))):
        assert 0 == run("--mine", *words).code, words
    assert before == {path: path.read_bytes() for path in (project / ".claude").rglob("*") if path.is_file()}


@pytest.mark.usefixtures("mine")
def test_a_name_of_the_project_hides_an_own_entry(run: Run, project: Path) -> None:
    """A name that the project has means its entry; the own one is not told there, and `doctor` says so (rule 23)."""
    (project / "legacy.json").write_text(
        json.dumps({"key_points": [{"name": "my_001", "text": "The project's", "helpful": 0, "harmful": 0}]}),
        encoding="utf-8",
    )
    run("import", str(project / "legacy.json"))
    context = told(call(START))
    assert (True, False) == ("[my_001] helpful=0 harmful=0 :: The project's" in context, OWN in context)
    assert "your own playbook" not in run("rate", "my_001", "helpful").out
    assert "The project's" == json.loads(run("why", "my_001", "--json").out)["text"]
    assert "which hide your own my_001" in run("doctor").out


def test_damage_of_it_is_named_and_leaves_the_project_alone(run: Run, mine: Path) -> None:
    """The project's entries are told, rated and explained; what needs the own ledger names it: exit code 3."""
    path = mine / "ledger" / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(OWN.encode(), OWN.upper().encode()))
    run("add", "Another")
    assert "[kpt_002] helpful=0 harmful=0 :: Another" in told(call(START))
    assert 0 == run("rate", "kpt_001", "helpful", "--session", "s1").code
    assert (0, 0) == (run("why", "kpt_001").code, run("why", "Write").code)
    for words in (("rate", "my_001", "helpful"), ("undo", "--of", "s1"), ("record",)):
        answer = run(*words, stdin=b'{"evaluations": [{"name": "my_001", "rating": "helpful"}]}')
        assert 3 == answer.code
        assert f"your own playbook, {mine}: events.jsonl:" in answer.err
    assert "bad   own playbook" in run("doctor").out
    assert {"kpt_001": 1, "kpt_002": 0} == {
        point["name"]: point["helpful"] for point in json.loads(run("show", "--json").out)["key_points"]
    }


# What a project ships


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("planted", ["config folder", "relative folder", "settings", "link"])
def test_a_project_cannot_redirect_it(
    run: Run, project: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """No settings, no variable and no folder of a project make another playbook the person's own (rule 23)."""
    fake = project / ".claude" / "my-playbook"
    (fake / "ledger").mkdir(parents=True)
    for path in (mine / "ledger" / "events.jsonl", mine / "ledger" / "head", mine / "playbook.json"):
        text = path.read_bytes().replace(OWN.encode(), b"Planted")
        (fake / path.relative_to(mine)).write_bytes(text)
    if planted == "config folder":
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project / ".claude"))
    elif planted == "relative folder":
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", ".claude")
        monkeypatch.chdir(project)
    elif planted == "link":
        (project / "link").symlink_to(project / ".claude")
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project / "link"))
    else:
        (project / ".claude" / "config").mkdir()
        (project / ".claude" / "config" / "tallybook.toml").write_text(
            f'[mine]\nfolder = "{fake}"\n[playbook]\nmine = true\n', encoding="utf-8"
        )
    before = {path: path.read_bytes() for path in fake.rglob("*") if path.is_file()}
    context = told(call(START))
    assert (True, False) == ("Write tests" in context, "Planted" in context)
    assert (OWN in context) == (planted == "settings")
    code = run("add", "--mine", "Three").code
    assert (0 if planted == "settings" else 2) == code
    assert before == {path: path.read_bytes() for path in fake.rglob("*") if path.is_file()}
