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

-- A generation ends when an owner empties the book, so that nobody appends to what is no longer there.
CREATE TABLE IF NOT EXISTS tallybook.books (
    book text PRIMARY KEY CHECK (book <> ''),
    generation bigint NOT NULL DEFAULT 1
);

CREATE TABLE IF NOT EXISTS tallybook.grants (
    book text NOT NULL REFERENCES tallybook.books,
    role name NOT NULL,
    may text NOT NULL CHECK (may IN ('read', 'write', 'own')),
    PRIMARY KEY (book, role)
);

CREATE TABLE IF NOT EXISTS tallybook.runs (
    book text NOT NULL REFERENCES tallybook.books,
    generation bigint NOT NULL,
    first bigint NOT NULL CHECK (first >= 1),
    last bigint NOT NULL CHECK (last >= first),
    before text NOT NULL,
    after text NOT NULL,
    data bytea NOT NULL,
    at timestamptz NOT NULL,
    author name NOT NULL,
    PRIMARY KEY (book, first),
    UNIQUE (book, last)
);

-- The books on which the user who logged in has one of these rights, directly or as a member of a role.
-- `session_user` is who logged in: SET ROLE changes neither rights nor authors.
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

-- Refuse a run that does not follow the last one. The lock on the book's row makes appends wait for one another.
CREATE OR REPLACE FUNCTION tallybook.check_run() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    current_generation bigint;
    end_chain text;
BEGIN
    IF NEW.book NOT IN (SELECT tallybook.granted('write', 'own')) THEN
        RAISE insufficient_privilege
            USING MESSAGE = format('role %s may not write to book %s', session_user, NEW.book);
    END IF;
    SELECT b.generation INTO current_generation FROM tallybook.books AS b WHERE b.book = NEW.book FOR UPDATE;
    SELECT r.after INTO end_chain FROM tallybook.runs AS r WHERE r.book = NEW.book AND r.last = NEW.first - 1;
    IF NOT FOUND AND NEW.first = 1 AND NOT EXISTS (SELECT FROM tallybook.runs AS r WHERE r.book = NEW.book) THEN
        end_chain := repeat('0', 32);
    END IF;
    -- Who appends to an empty book has read no generation.
    NEW.generation := coalesce(NEW.generation, current_generation);
    IF NEW.generation <> current_generation OR end_chain IS DISTINCT FROM NEW.before THEN
        RAISE serialization_failure
            USING MESSAGE = format('book %s does not end before event %s with this chain', NEW.book, NEW.first);
    END IF;
    NEW.at := clock_timestamp();
    NEW.author := session_user;
    RETURN NEW;
END
$$;

DROP TRIGGER IF EXISTS check_run ON tallybook.runs;
CREATE TRIGGER check_run BEFORE INSERT ON tallybook.runs FOR EACH ROW EXECUTE FUNCTION tallybook.check_run();

-- Grant a role the right to read a book, to write to it, or to own it: to empty it and to redact in it as well.
-- For the operator alone.
CREATE OR REPLACE FUNCTION tallybook.grant_book(of_book text, to_role name, what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tallybook.books (book) VALUES (of_book) ON CONFLICT DO NOTHING;
    INSERT INTO tallybook.grants (book, role, may) VALUES (of_book, to_role, what)
        ON CONFLICT (book, role) DO UPDATE SET may = excluded.may;
    EXECUTE format('GRANT USAGE ON SCHEMA tallybook TO %I', to_role);
    EXECUTE format('GRANT SELECT ON tallybook.books, tallybook.runs TO %I', to_role);
    -- Which books it may write to is the policy's to say.
    IF what <> 'read' THEN
        EXECUTE format('GRANT INSERT ON tallybook.runs TO %I', to_role);
    END IF;
END
$$;

-- Take every right on a book from a role. For the operator alone.
CREATE OR REPLACE FUNCTION tallybook.revoke_book(of_book text, from_role name) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM tallybook.grants WHERE book = of_book AND role = from_role
$$;

-- Delete the runs of a book and begin a new generation, if it still ends where the caller expects; return the
-- generation. An expected generation of NULL stands for an empty book. For owners of the book; `share repair` and
-- `share reset` call it, and append what replaces the runs in the same transaction.
CREATE OR REPLACE FUNCTION tallybook.empty_book(of_book text, expected_generation bigint, expected_last bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    current_generation bigint;
BEGIN
    IF of_book NOT IN (SELECT tallybook.granted('own')) THEN
        RAISE insufficient_privilege USING MESSAGE = format('role %s does not own book %s', session_user, of_book);
    END IF;
    SELECT b.generation INTO current_generation FROM tallybook.books AS b WHERE b.book = of_book FOR UPDATE;
    IF coalesce(expected_generation, current_generation) <> current_generation OR expected_last <>
        (SELECT coalesce(max(r.last), 0) FROM tallybook.runs AS r WHERE r.book = of_book) THEN
        RAISE serialization_failure USING MESSAGE = format('book %s does not end there', of_book);
    END IF;
    DELETE FROM tallybook.runs AS r WHERE r.book = of_book;
    UPDATE tallybook.books AS b SET generation = b.generation + 1 WHERE b.book = of_book;
    RETURN current_generation + 1;
END
$$;

-- Overwrite the free texts of an event with `null` and blanks, as `tallybook redact` does in a ledger: no byte moves,
-- and the chain still verifies. Return how many texts. For owners of the book.
CREATE OR REPLACE FUNCTION tallybook.redact_event(of_book text, event text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run record;
    lines text[];
    owned boolean := false;
    free integer;
    rest integer;
    texts integer := 0;
BEGIN
    IF of_book NOT IN (SELECT tallybook.granted('own')) THEN
        RAISE insufficient_privilege USING MESSAGE = format('role %s does not own book %s', session_user, of_book);
    END IF;
    IF event !~ '^[0-9A-Za-z-]+$' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the id of an event has letters, digits and hyphens';
    END IF;
    PERFORM FROM tallybook.books AS b WHERE b.book = of_book FOR UPDATE;
    FOR run IN
        SELECT r.first, r.data FROM tallybook.runs AS r
        WHERE r.book = of_book AND position(convert_to(',"id":"' || event || '",', 'UTF8') IN r.data) > 0
    LOOP
        -- As LATIN1 each byte is one character, so that a value keeps its length in bytes.
        lines := string_to_array(convert_from(run.data, 'LATIN1'), E'\n');
        FOR line IN 1 .. array_length(lines, 1) LOOP
            IF position(E',\t"kind":"text.continued"' IN lines[line]) = 0 THEN
                owned := lines[line] ~ ('^\{"crc":"[0-9a-f]{8}","seq":[0-9]+,"id":"' || event || '",');
            END IF;
            free := position(E',\t"free":' IN lines[line]);
            IF owned AND free > 0 THEN
                -- A line ends with a brace; the last one of a batch with the chain's section.
                rest := CASE WHEN lines[line] ~ E',\t"chain":"[0-9a-f]{32}"\\}$' THEN 45 ELSE 1 END;
                lines[line] := left(lines[line], free + 8)
                    || rpad('null', length(lines[line]) - free - 8 - rest) || right(lines[line], rest);
                texts := texts + 1;
            END IF;
        END LOOP;
        UPDATE tallybook.runs AS r SET data = convert_to(array_to_string(lines, E'\n'), 'LATIN1')
        WHERE r.book = of_book AND r.first = run.first;
    END LOOP;
    RETURN texts;
END
$$;

COMMIT;
