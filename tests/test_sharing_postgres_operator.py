"""What the README has an operator type for a book in PostgreSQL, typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from helpers.books import make_run, plain
from helpers.documentation import chapter
from helpers.engines import postgres_engine
from tallybook.ledger.line import START
from tallybook.ledger.sharing.engines.engine import NOTHING, Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.postgres_server import Database

PAGE = "ledger/sharing/engines/README.md"


def test_every_documented_command_of_an_operator_works(postgres_database: Database, tmp_path: Path) -> None:
    """Set-up, grants, watching, backup and restore run as printed, with other names in place of capitals."""
    server = postgres_database.server
    blocks = re.findall(r"^```(sh|sql)\n(.*?)^```$", chapter(PAGE, "PostgreSQL"), re.DOTALL | re.MULTILINE)
    set_up, backup = (code for language, code in blocks if language == "sh")
    grants, watching, limit, vacuum = (code for language, code in blocks if language == "sql")
    for name in ("operated", "restored"):
        server.execute(f"CREATE DATABASE {name}")
    server.shell(set_up.replace("postgresql://HOST/DATABASE", "postgresql:///operated"))
    create, grant, revoke = grants.replace("anna", "nora").replace("…", "secret-of-nora").splitlines()
    server.execute(create + grant + grant.replace("'write'", "'own'"), "operated")
    run, _ = make_run(START, "nora", "kpt_001", text="a text of a customer")
    with postgres_database.credentials():
        address = postgres_database.address("nora").replace("/tally", "/operated")
        engine = postgres_engine(address, "BOOK")
        assert Outcome.DONE is engine.append(NOTHING, [run]).outcome
        sizes, _, sessions = watching.partition(";")
        assert ["BOOK", 1, "nora"] == [*server.execute(sizes, "operated")[0][:3]]
        assert [] == server.execute(sessions, "operated")
        server.execute(limit.replace("anna", "nora"), "operated")
        server.execute(vacuum, "operated")
        before = engine.read(0)
        first, second = backup.replace("books.sql", str(tmp_path / "books.sql")).splitlines()
        server.shell(first.replace("postgresql://HOST/DATABASE", "postgresql:///operated"))
        server.shell(second.replace("postgresql://HOST/DATABASE", "postgresql:///restored"))
        restored = postgres_engine(address.replace("/operated", "/restored"), "BOOK")
        assert before == restored.read(0)
        following, _ = make_run(START._replace(seq=run.last, chain=run.after), "nora", "kpt_001")
        assert Outcome.DONE is restored.append(before.end, [following]).outcome
        assert [following] == [plain(one) for one in restored.read(run.last).runs]
        server.execute(revoke, "operated")
        engine.close()
        restored.close()
