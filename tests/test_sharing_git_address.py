"""Addresses of git remotes, books' names, and the user's repository, which is read and never obeyed or changed."""

from __future__ import annotations

import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from helpers.commands import Run as RunCommand
from helpers.engines import git_engine
from helpers.git_repositories import git, make_remote
from helpers.git_servers import make_ssh, serve_https
from helpers.memory_store import make_runs, plain
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import digest
from tallybook.ledger.sharing import git_remote
from tallybook.ledger.sharing.engine import Engine, EngineError, Run, UnreachableError
from tallybook.ledger.sharing.git_remote import check_address, check_book, default_book, read_remote

SECRET = "s3cret/of anna"  # noqa: S105 - of a server of this test


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder of a user's own configuration."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return the user's repository, which has a commit."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "file").write_text("x\n", encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "one")
    return folder


def share(engine: Engine) -> list[Run]:
    """Append two runs, and return what the engine has then."""
    assert engine.append(engine.read(0).end, make_runs(2)) is not None
    return [plain(run) for run in engine.read(0).runs]


# ---- Addresses ----


@pytest.mark.parametrize(
    ("text", "address"),
    [
        *((text, text) for text in ("https://host/a.git", "https://anna@host:8443/a.git", "ssh://git@host:22/a.git")),
        *((text, text) for text in ("git@host:a/b.git", "host:a", "[::1]:a", "file:///srv/a.git", "/srv/a:b::c")),
        ("https://ann-from-the-quality-team@host/a.git", "https://ann-from-the-quality-team@host/a.git"),
        ("../a.git", "/srv/a.git"),
        ("./a:b", "/srv/project/a:b"),
    ],
)
def test_addresses_over_https_ssh_and_files_are_taken(text: str, address: str) -> None:
    """An address is passed on as it is; a path is made absolute."""
    assert address == check_address(text, "/srv/project")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=touch",
        "--upload-pack=touch",
        "ext::sh -c touch",
        "fd::17",
        "http://host/a.git",
        "git://host/a.git",
        "ftp://host/a",
        "ssh://-oProxyCommand=touch/a",
        "ssh://git:secret@host/a",
        "-host:a",
        "git@-oProxyCommand=touch:a",
        "host:-a",
        "host:",
        "https:///a",
        "https://host:port/a",
        "https://anna:secret@host/a",
        "https://:secret@host/a",
        "https://s3cret-secret-secret-secret@host/a",
        "https://host/a?private_token=secret",
        "file://host/a",
        "host:a\nb",
        "/srv/\x1b[31m",
    ],
)
def test_other_addresses_are_refused_in_one_line(text: str) -> None:
    """Protocols without protection, helpers that run commands, and options are refused, without a password shown."""
    with pytest.raises(BadInputError) as caught:
        check_address(text)
    assert (1, False) == (len(str(caught.value).splitlines()), "secret" in str(caught.value))


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate of the server")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="this system does not show arguments as files")
def test_a_token_in_a_variable_is_seen_by_its_server_alone(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches the server over https, and is in no argument of a process, no message, and no file."""
    monkeypatch.setenv("CI_TOKEN", SECRET)
    monkeypatch.setenv("WRONG_TOKEN", "wrong")
    make_remote(tmp_path / "book.git")
    git(tmp_path / "book.git", "config", "http.receivepack", "true")
    arguments: set[bytes] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    arguments.add(path.read_bytes())
                except OSError:
                    continue

    watcher = threading.Thread(target=watch)
    with serve_https(tmp_path, "anna", SECRET) as (port, certificate, logins):
        (home / ".gitconfig").write_text(
            f"[http]\n\tsslCAInfo = {certificate}\n[credential]\n\thelper = !touch {home}/asked; false\n",
            encoding="utf-8",
        )
        watcher.start()
        try:
            address = f"https://anna@127.0.0.1:{port}/book.git"
            engine = git_engine(address, "main", str(tmp_path / "cache"), login="CI_TOKEN")
            assert make_runs(2) == share(engine)
            wrong = git_engine(address, "main", str(tmp_path / "other"), login="WRONG_TOKEN")
            with pytest.raises(EngineError) as caught:
                wrong.read(0)
        finally:
            ended.set()
            watcher.join()
    assert {"", *logins} - {""} != set()
    seen = [line for line in arguments if b"s3cret" in line or b"wrong" in line]
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert ([], [], False) == (seen, files, (home / "asked").exists())
    assert any(b"git" in line for line in arguments)
    assert (address, False) == (engine.address, "wrong" in str(caught.value))


@pytest.mark.parametrize(
    ("address", "variable"),
    [
        ("https://host/a", "MISSING"),
        ("https://host/a", "A=B"),
        ("git@host:a", "CI_TOKEN"),
        ("https://a$(x)@host/a", "CI_TOKEN"),
    ],
)
def test_a_variable_that_gives_no_token_is_refused(
    address: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not set, is no name, or belongs to an address that takes none is named before anything is asked."""
    monkeypatch.setenv("CI_TOKEN", SECRET)
    with pytest.raises(BadInputError, match="--token-env"):
        git_engine(address, "main", None, login=variable)


def test_ssh_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An scp-like address goes over the user's ssh, which has no terminal and no program to ask with."""
    remote = make_remote(tmp_path / "remote.git")
    folder = make_ssh(tmp_path / "bin", f'echo "$SSH_ASKPASS,$SSH_ASKPASS_REQUIRE" >> {tmp_path}/asks; : </dev/tty')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert make_runs(2) == share(git_engine(f"me@server:{remote}", "main", str(tmp_path / "cache")))
    assert {",never"} == {*(tmp_path / "asks").read_text().splitlines()}


def test_the_users_own_configuration_counts(tmp_path: Path, home: Path) -> None:
    """The user's ssh command and replaced addresses are used, as git uses them everywhere."""
    remote = make_remote(tmp_path / "remote.git")
    folder = make_ssh(tmp_path / "bin")
    (home / ".gitconfig").write_text(
        f'[core]\n\tsshCommand = {folder}/ssh -i key\n[url "me@server:{tmp_path}/"]\n\tinsteadOf = https://team/\n',
        encoding="utf-8",
    )
    assert make_runs(2) == share(git_engine("https://team/remote.git", "main", str(tmp_path / "cache")))
    assert f"-i key -o SendEnv=GIT_PROTOCOL me@server git-upload-pack '{remote}'" in (folder / "ssh-calls").read_text()


# ---- The user's repository ----


def test_the_address_of_a_remote_is_read_once(repository: Path, home: Path, tmp_path: Path) -> None:
    """The first address counts; a relative path begins at the top; the user's own short forms are explained."""
    below = repository / "services" / "api"
    below.mkdir(parents=True)
    git(repository, "remote", "add", "origin", "git@host:team/a.git")
    git(repository, "remote", "set-url", "--add", "origin", "git@other:team/a.git")
    git(repository, "remote", "add", "disk", "../remote.git")
    git(repository, "remote", "add", "short", "work://a")
    git(repository, "remote", "add", "odd", "ext::sh -c touch")
    for beginning in ("git@host:", "work://"):
        git(repository, "config", "--add", "url.https://evil/.insteadOf", beginning)
    (home / ".gitconfig").write_text('[url "https://host/team/"]\n\tinsteadOf = work://\n', encoding="utf-8")
    found = [read_remote(str(below), name) for name in ("origin", "disk", "short")]
    assert ["git@host:team/a.git", str(tmp_path / "remote.git"), "https://host/team/a"] == found
    with pytest.raises(BadInputError, match="is not the address of a git remote"):
        read_remote(str(below), "odd")
    with pytest.raises(BadInputError, match=f"remote upstream: {repository} has none of this name; give an address"):
        read_remote(str(below), "upstream")
    with pytest.raises(BadInputError, match=f"^{home}: not a git repository; give an address of a git remote$"):
        read_remote(str(home))


@pytest.mark.parametrize(
    ("address", "path", "book"),
    [
        ("https://host/acme/app.git", "", "acme+app"),
        ("https://anna@host:8443/Acme/App/", "", "acme+app"),
        ("ssh://git@host:22/acme/app.git", "", "acme+app"),
        ("git@host:acme/app.git", "services/api", "acme+app+services+api"),
        ("git@host:~anna/app", "", "anna+app"),
        ("[::1]:group/sub/app", "", "group+sub+app"),
        ("/srv/git/app.git", "Lib", "app+Lib"),
        ("file:///mnt/other/app.git", "services+api", "app+services=2Bapi"),
        ("host:a.b", "größe", "a=2Eb+gr=C3=B6=C3=9Fe"),
        ("host:a", "gro\u0308ße", "a+gr=C3=B6=C3=9Fe"),
        ("host:a", "x" * 200, "a+" + "x" * 114 + "=-" + digest(b"a/" + b"x" * 200)),
    ],
)
def test_a_book_has_its_projects_name(repository: Path, address: str, path: str, book: str) -> None:
    """Owner, repository and path give a name that every clone has, and that git takes for a reference."""
    (repository / path).mkdir(parents=True, exist_ok=True)
    git(repository, "remote", "add", "origin", address)
    found = default_book(str(repository / path))
    check_book(found)
    git(repository, "check-ref-format", f"refs/tallybook/{found}")
    assert book == found


@pytest.mark.parametrize(
    "name", ["", ".", "a.", ".a", "a..b", "a.lock", "a/b", "a b", "a~", "a\n", "ä", "@{", "x" * 151]
)
def test_a_name_that_no_branch_can_have_is_refused(name: str) -> None:
    """One line says which characters a book's name may have."""
    with pytest.raises(BadInputError, match=r"is not a name for a branch; use at most 150 letters"):
        check_book(name)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_nothing_in_the_users_repository_changes(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its refs, index, configuration, FETCH_HEAD and files are the same bytes after all that the engine does."""
    remote = make_remote(tmp_path / "remote.git")
    git(repository, "remote", "add", "origin", str(remote))
    git(repository, "push", "--quiet", "origin", "HEAD:main")
    git(repository, "fetch", "--quiet", "origin")
    before = contents(repository)
    monkeypatch.chdir(repository)
    engine = git_engine(read_remote("."), default_book("."), str(tmp_path / "cache"))
    assert make_runs(2) == share(engine)
    assert engine.replace(engine.read(0).end, make_runs(1)) is not None
    assert (before, "", "refs/heads/main\nrefs/tallybook/remote") == (
        contents(repository),
        git(repository, "status", "--porcelain"),
        git(remote, "for-each-ref", "--format=%(refname)"),
    )


# How the git engine runs git: its limits, its version, ssh, and what a message says of a failure.


def open_engine(engine: Engine) -> None:
    """Append a run, which must succeed."""
    assert engine.append(engine.read(0).end, make_runs(1)) is not None


def test_a_remote_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the time limit git and what it started are ended, and the message says how long it took."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nwhile :; do echo >> {tmp_path}/calls; sleep 0.05; done\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    engine = git_engine("me@server:book", "main", str(tmp_path / "cache"), limit_s=1)
    with pytest.raises(UnreachableError, match=r"me@server:book: cannot be reached: git did not end within 1 s; "):
        engine.read(0)
    lines = (tmp_path / "calls").stat().st_size
    time.sleep(0.3)
    assert (True, lines) == (lines > 0, (tmp_path / "calls").stat().st_size)


def test_an_interrupt_ends_git_as_well(tmp_path: Path) -> None:
    """After Ctrl-C nothing that git started runs on, although the terminal's signal does not reach it."""
    calls = tmp_path / "calls"
    (tmp_path / "ssh").write_text(f"#!/bin/sh\nwhile :; do echo >> {calls}; sleep 0.05; done\n")
    (tmp_path / "ssh").chmod(0o755)
    program = "import sys; from tallybook.ledger.sharing.git import GitStore; GitStore(*sys.argv[1:]).list(0)"
    command = [sys.executable, "-c", program, "me@server:book", "main", str(tmp_path / "cache")]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(command, env=os.environ | {"PATH": path}, stderr=subprocess.PIPE) as process:
        # By the tenth line git has run for a while: Python has noted, on a busy machine too, which process it started.
        while not calls.exists() or calls.stat().st_size < 10:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        errors = process.communicate()[1]
    lines = calls.stat().st_size
    time.sleep(0.3)
    assert (True, lines) == (errors.endswith(b"KeyboardInterrupt\n"), calls.stat().st_size)


def test_a_connection_that_ssh_keeps_is_not_waited_for(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ssh that stays in the background with its output open, for later connections, does not delay a sync."""
    folder = make_ssh(tmp_path / "bin", "sleep 8 &")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    begin = time.monotonic()
    open_engine(git_engine(f"me@server:{remote}", "main", str(tmp_path / "cache")))
    assert time.monotonic() - begin < 8


def test_git_that_cannot_be_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name that is missing, or that the system does not start, is reported in one line."""
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = git_engine("me@server:book", "main", str(tmp_path / "cache"))
    with pytest.raises(UnreachableError, match=r"cannot be reached: git is not installed; install git 2.30 or later; "):
        engine.read(0)
    (tmp_path / "git").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(UnreachableError, match=r"cannot be reached: git cannot be run: Exec format error; "):
        engine.read(0)


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (b"", "git ended with 128"),
        (b"warning: x\nhint: y\nfatal: repository 'z' not found\n", "repository 'z' not found"),
        (
            b"git@host: Permission denied (publickey).\nfatal: Could not read\n",
            "git@host: Permission denied (publickey).",
        ),
        (b"remote: \x1b[1;31mno\x1b[0m, \x07never  \nremote:\nremote: ask Anna\nTo /x\n", "no ,  never ask Anna"),
        (b"fatal: unable to access 'https://me:secret@host/x/': 403\n", "unable to access 'https://host/x/': 403"),
        (b"x" * 400, "x" * 300 + "…"),
    ],
)
def test_a_reason_is_one_clean_line(errors: bytes, reason: str) -> None:
    """The server's words come first, then git's own; without passwords, controls, and warnings, and not too long."""
    assert reason == git_remote.Done(128, b"", errors).reason


def test_share_names_a_git_that_does_not_start(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remote of the user's repository is asked of git before there is an engine."""
    (tmp_path / "git").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("share", "git", "--yes")
    assert (4, "tallybook: git cannot be run: Exec format error\n") == (done.code, done.err)
