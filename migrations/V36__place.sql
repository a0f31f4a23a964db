-- The place that this schema is, where several schemas work together.

CREATE TABLE place (
    name short_name NOT NULL,
    hashed text[] COLLATE "C",
    notifies boolean NOT NULL DEFAULT true,
    named_at timestamptz NOT NULL,
    CONSTRAINT place_pkey PRIMARY KEY (name)
);
CREATE UNIQUE INDEX place_is_one ON place ((true));
COMMENT ON TABLE place IS
    'The name of this schema among the places of an application: schemas in several databases, each of which is a whole queue. One row, written by name_place. A client whose map of places says something else is refused. No row: the schema is no place.';
COMMENT ON COLUMN place.name IS 'The name of the place in the map.';
COMMENT ON COLUMN place.hashed IS
    'The names of the places that share hashed values, in the order of the map. A value belongs to the place at the index that the first eight bytes of its SHA-256 have modulo their number. Null: this place is not among them.';
COMMENT ON COLUMN place.notifies IS
    'Whether inserts and changes in this schema send NOTIFY to wake runners. False: runners poll. Set it to false where transactions with inserts are prepared (PREPARE TRANSACTION), as a transaction that has sent NOTIFY cannot be. The setting uniqueue.notify does the same for a session, a role or a database.';
COMMENT ON COLUMN place.named_at IS 'When the name was given.';
COMMENT ON CONSTRAINT place_pkey ON place IS 'A key of the row, for replication.';
COMMENT ON INDEX place_is_one IS 'A schema is one place.';

CREATE FUNCTION place() RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT p.name FROM place AS p);
COMMENT ON FUNCTION place() IS
    'The name of the place that this schema is. Null: it is no place, as in an application with one schema.';

CREATE FUNCTION name_place(name text, hashed text[] DEFAULT NULL) RETURNS place
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    named place;
BEGIN
    IF name IS NULL OR octet_length(name) NOT BETWEEN 1 AND 128 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid name of a place: must be 1 to 128 bytes: %L', name);
    ELSIF hashed IS NOT NULL AND array_position(hashed COLLATE "C", name COLLATE "C") IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid hashed: must contain the place %s: %s', name, hashed);
    END IF;
    INSERT INTO place (name, hashed, named_at) VALUES (name, hashed, clock_timestamp())
    ON CONFLICT DO NOTHING;
    SELECT p.* INTO named FROM place AS p;
    IF named.name <> name COLLATE "C" OR named.hashed IS DISTINCT FROM hashed THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('this schema is the place %s with the hashed places %s already: %s, %s', named.name, coalesce(named.hashed::text, 'none'), name, coalesce(hashed::text, 'none')),
            HINT = 'Mend the map of places. If the schema has no jobs yet, delete the row of the table place.';
    END IF;
    RETURN named;
END
$$;
COMMENT ON FUNCTION name_place(text, text[]) IS
    'Makes this schema the place of this name, and returns the row of the table place. If it is that place already, nothing changes. If it is another place, or if its hashed places differ, error 22023 names both.
name: 1 to 128 bytes.
hashed: the names of the places that share hashed values, in the order of the map. This place is among them. Default null: this place is not among them.';
