-- Tables for books, the ledgers that several machines append to, in schema `tallybook` of a PostgreSQL database.
--
-- An operator runs this file once in each database. He needs the right to create a schema, and owns what it creates:
--     psql 'postgresql://HOST/DATABASE' --set ON_ERROR_STOP=1 --file postgres.sql
-- Then he grants each login role, or a role that they are members of, its books; the first grant makes the book:
--     SELECT tallybook.grant_book('BOOK', 'ROLE', 'write');
-- Running it again changes nothing, or brings functions and policies up to date. It needs PostgreSQL 13 or later in
-- the encoding UTF8, and no extension.

BEGIN;

CREATE SCHEMA IF NOT EXISTS tallybook;

CREATE TABLE IF NOT EXISTS tallybook.books (
    book text PRIMARY KEY CHECK (book <> '')
);

CREATE TABLE IF NOT EXISTS tallybook.grants (
    book text NOT NULL REFERENCES tallybook.books,
    role name NOT NULL,
    may text NOT NULL CHECK (may IN ('read', 'write', 'own')),
    PRIMARY KEY (book, role)
);

-- A run is never changed, but for its erasure. `session_user` is who logged in: SET ROLE does not change it.
CREATE TABLE IF NOT EXISTS tallybook.runs (
    book text NOT NULL REFERENCES tallybook.books,
    number bigint NOT NULL CHECK (number >= 1),
    tag text NOT NULL,
    data bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    author name NOT NULL DEFAULT session_user,
    PRIMARY KEY (book, number)
);

-- The books on which the user who logged in has one of these rights, directly or as a member of a role.
CREATE OR REPLACE FUNCTION tallybook.granted(VARIADIC rights text[]) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT g.book
    FROM tallybook.grants AS g JOIN pg_catalog.pg_roles AS r ON r.rolname = g.role
    WHERE g.may = ANY (rights) AND pg_has_role(session_user, r.oid, 'USAGE')
$$;

ALTER TABLE tallybook.books ENABLE ROW LEVEL SECURITY;
ALTER TABLE tallybook.grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tallybook.runs ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS read_books ON tallybook.books;
CREATE POLICY read_books ON tallybook.books FOR SELECT
    USING (book IN (SELECT tallybook.granted('read', 'write', 'own')));
DROP POLICY IF EXISTS read_runs ON tallybook.runs;
CREATE POLICY read_runs ON tallybook.runs FOR SELECT
    USING (book IN (SELECT tallybook.granted('read', 'write', 'own')));
DROP POLICY IF EXISTS append_runs ON tallybook.runs;
CREATE POLICY append_runs ON tallybook.runs FOR INSERT
    WITH CHECK (book IN (SELECT tallybook.granted('write', 'own')));

-- Grant a role the right to read a book, to write to it, or to own it: to erase runs of it as well.
-- For the operator alone.
CREATE OR REPLACE FUNCTION tallybook.grant_book(of_book text, to_role name, what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tallybook.books (book) VALUES (of_book) ON CONFLICT DO NOTHING;
    INSERT INTO tallybook.grants (book, role, may) VALUES (of_book, to_role, what)
        ON CONFLICT (book, role) DO UPDATE SET may = excluded.may;
    EXECUTE format('GRANT USAGE ON SCHEMA tallybook TO %I', to_role);
    EXECUTE format('GRANT SELECT ON tallybook.books, tallybook.runs TO %I', to_role);
    -- Which books it may write to is the policy's to say; when, and who it is, the table's.
    IF what <> 'read' THEN
        EXECUTE format('GRANT INSERT (book, number, tag, data) ON tallybook.runs TO %I', to_role);
    END IF;
END
$$;

-- Take every right on a book from a role. For the operator alone.
CREATE OR REPLACE FUNCTION tallybook.revoke_book(of_book text, from_role name) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM tallybook.grants WHERE book = of_book AND role = from_role
$$;

-- Empty the runs under smaller numbers than one; their numbers stay in use. For owners of the book: `share repair`
-- calls it, after it has put the book under larger numbers, without redacted texts.
CREATE OR REPLACE FUNCTION tallybook.erase_runs(of_book text, before bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF of_book NOT IN (SELECT tallybook.granted('own')) THEN
        RAISE insufficient_privilege USING MESSAGE = format('role %s does not own book %s', session_user, of_book);
    END IF;
    UPDATE tallybook.runs AS r SET data = '', tag = '' WHERE r.book = of_book AND r.number < before;
END
$$;

COMMIT;
