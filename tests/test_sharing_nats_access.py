"""The ways in which a user reaches a book in NATS: the command with a password file, and a credentials file."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.books import make_runs
from helpers.nats_cluster import Cluster, append, held, shared_cluster
from helpers.real_command import MAIN
from tallybook.ledger.sharing.engines.engine import UnreachableError
from tallybook.ledger.sharing.engines.nats_connection import Access

if TYPE_CHECKING:
    from pathlib import Path

    import nkeys


def run(home: Path, *words: str) -> str:
    """Run the command as a person with a home folder and a project of their own; return what it prints."""
    project = home / "project"
    (project / ".claude").mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLAUDE")}
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *words],
        cwd=project,
        env=environment | {"HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr), words
    return done.stdout


def test_two_people_share_by_the_command(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Each types `share nats` once, and `sync` brings a rating from one to the other; no secret is shown or stored."""
    cluster = shared_cluster(request)
    password = tmp_path / "password"
    password.write_text(cluster.access("owner").password + "\n", encoding="utf-8")
    password.chmod(0o600)
    options = ["--user", "owner", "--password-file", str(password), "--ca", cluster.access("owner").ca]
    share = ["share", "nats", cluster.address, "--book", "by-command", "--yes", *options]
    anna, ben = tmp_path / "anna", tmp_path / "ben"
    shown = [run(anna, *share), run(anna, "add", "Read the logs first"), run(anna, "sync")]
    shown += [run(ben, *share), run(ben, "rate", "kpt_001", "helpful"), run(ben, "sync"), run(anna, "sync")]
    points = json.loads(run(anna, "show", "--json"))["key_points"]
    assert [("kpt_001", "Read the logs first", 1)] == [(p["name"], p["text"], p["helpful"]) for p in points]
    files = [path.read_bytes() for home in (anna, ben) for path in home.rglob("*") if path.is_file()]
    assert [] == [text for text in [*map(str.encode, shown), *files] if b"secret-of" in text]


def _pair(kind: int, letter: bytes) -> nkeys.KeyPair:
    import nkeys  # noqa: PLC0415 - of the extra

    return nkeys.from_seed(bytearray(nkeys.encode_seed(letter * 32, kind)))


def _token(issuer: nkeys.KeyPair, subject: nkeys.KeyPair, kind: str, **claims: object) -> str:
    """Return a token as `nsc` makes it."""

    def text(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    names = {"iss": issuer.public_key.decode(), "sub": subject.public_key.decode()}
    body = {"jti": kind, "iat": 1, "name": kind, **names, "nats": {"type": kind, "version": 2, **claims}}
    signed = f"{text({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{text(body)}"
    return f"{signed}.{base64.urlsafe_b64encode(issuer.sign(signed.encode())).rstrip(b'=').decode()}"


def test_a_credentials_file_lets_its_user_in(request: pytest.FixtureRequest) -> None:
    """Servers that know users by tokens take the file that `nsc` writes, and no other."""
    import nkeys  # noqa: PLC0415 - of the extra

    single = Cluster(servers=1)
    request.addfinalizer(single.close)
    operator = _pair(nkeys.PREFIX_BYTE_OPERATOR, b"o")
    account, system = _pair(nkeys.PREFIX_BYTE_ACCOUNT, b"a"), _pair(nkeys.PREFIX_BYTE_ACCOUNT, b"s")
    unlimited = ("subs", "conn", "leaf", "imports", "exports", "data", "payload", "streams", "consumer")
    limits = dict.fromkeys((*unlimited, "mem_storage", "disk_storage"), -1) | {"wildcards": True}
    bare = {name: limit for name, limit in limits.items() if not name.endswith(("storage", "streams", "consumer"))}
    (single.folder / "nats-permissions.conf").write_text(
        f"operator: {_token(operator, operator, 'operator')}\n"
        f"system_account: {system.public_key.decode()}\n"
        "resolver: MEMORY\n"
        "resolver_preload: {\n"
        f"  {account.public_key.decode()}: {_token(operator, account, 'account', limits=limits)}\n"
        f"  {system.public_key.decode()}: {_token(operator, system, 'account', limits=bare)}\n"
        "}\n",
        encoding="utf-8",
    )
    single.start()
    ca = str(single.certificates.authority)
    for letter, issuer, known in ((b"u", account, True), (b"v", operator, False)):
        user = _pair(nkeys.PREFIX_BYTE_USER, letter)
        creds = single.folder / f"{known}.creds"
        free = {"subs": -1, "data": -1, "payload": -1}
        creds.write_text(
            f"-----BEGIN NATS USER JWT-----\n{_token(issuer, user, 'user', **free)}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n",
            encoding="utf-8",
        )
        engine = single.engine("main", access=Access(creds=str(creds), ca=ca))
        if known:
            append(engine, *make_runs(2))
            assert make_runs(2) == held(engine)
        else:
            with pytest.raises(UnreachableError, match="it refuses the user, the password or the credentials"):
                engine.read(0)
        engine.close()


def test_a_file_that_is_missing_is_told(request: pytest.FixtureRequest) -> None:
    """A CA or a credentials file that does not exist is named instead of a traceback."""
    cluster = shared_cluster(request)
    for access in (Access(ca="/nowhere/ca.pem"), cluster.access("owner")._replace(creds="/nowhere/user.creds")):
        engine = cluster.engine("main", access=access)
        with pytest.raises(UnreachableError, match=r"the file /nowhere/.* cannot be read"):
            engine.read(0)
        engine.close()
