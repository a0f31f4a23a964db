-- The place that this schema is, where several schemas work together.

CREATE TABLE place (
    name short_name NOT NULL,
    hashed text[] COLLATE "C",
    database_id text COLLATE "C",
    notifies boolean NOT NULL DEFAULT true,
    named_at timestamptz NOT NULL,
    CONSTRAINT place_pkey PRIMARY KEY (name)
);
CREATE UNIQUE INDEX place_is_one ON place ((true));
COMMENT ON TABLE place IS 'The name of this schema among the places of an application: schemas in several databases, each of which is a whole queue. One row, written by name_place. A client whose map of places says something else is refused. No row: the schema is no place.';
COMMENT ON COLUMN place.name IS 'The name of the place in the map.';
COMMENT ON COLUMN place.hashed IS 'The names of the places that share hashed values, in the order of the map. A value belongs to the place at the index that the first eight bytes of its SHA-256 have modulo their number. This place is one of them, or has only been told the list. Null: no list is known here.';
COMMENT ON COLUMN place.database_id IS 'The database that the place is in, as _database_id tells it. In a database with another id the schema is a copy, and clients with a map refuse it. Null: it was not known, and is not compared.';
COMMENT ON COLUMN place.notifies IS 'Whether inserts and changes in this schema send NOTIFY to wake runners. False: runners poll. Set it to false where transactions with inserts are prepared (PREPARE TRANSACTION), as a transaction that has sent NOTIFY cannot be. The setting uniqueue.notify does the same for a session, a role or a database.';
COMMENT ON COLUMN place.named_at IS 'When the name was given.';
COMMENT ON CONSTRAINT place_pkey ON place IS 'A key of the row, for replication.';
COMMENT ON INDEX place_is_one IS 'A schema is one place.';

CREATE FUNCTION place() RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT p.name FROM place AS p);
COMMENT ON FUNCTION place IS 'The name of the place that this schema is. Null: it is no place, as in an application with one schema.';

CREATE FUNCTION _database_id() RETURNS text
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF NOT has_function_privilege('pg_catalog.pg_control_system()', 'execute') THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT c.system_identifier || '.' || d.oid
        FROM pg_control_system() AS c
        CROSS JOIN pg_database AS d
        WHERE d.datname = current_database()
    );
END
$$;
COMMENT ON FUNCTION _database_id IS 'The system identifier of this PostgreSQL cluster and the OID of this database. A standby has those of its primary, also after it is promoted. A restored dump and an upgraded cluster have others. Null: the role may not execute pg_control_system.';

CREATE FUNCTION place_is_copy() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce((SELECT p.database_id <> _database_id() FROM place AS p), false);
COMMENT ON FUNCTION place_is_copy IS 'Whether this schema is a copy of its place: it was named in another database or cluster, and restored or copied here. name_place with adopt says that the place is here now.';

CREATE FUNCTION place_of(value text) RETURNS text
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    hashed CONSTANT text[] := (SELECT p.hashed FROM place AS p);
    digest CONSTANT bytea := sha256(convert_to(value, 'UTF8'));
    rest bigint := 0;
BEGIN
    FOR place IN 0..7 LOOP
        rest := (rest * 256 + get_byte(digest, place)) % cardinality(hashed);
    END LOOP;
    RETURN hashed[1 + rest];
END
$$;
COMMENT ON FUNCTION place_of IS 'The place of a hashed value: a unique key, a group key, an id in lower case, or a member of the args, as kind.place says. PlaceMap::place_of in Rust finds the same. Null: no hashed list is known here.';

-- A kind declares one way to the place of its jobs. The rule is checked after the insert, for every way in which a job can
-- come in. The table job has the trigger job_place only where a hashed list is known, so that other queues pay nothing.

CREATE FUNCTION _place_value(way text, unique_key text, group_key text, args jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    name text;
    member jsonb;
BEGIN
    IF way = 'unique_key' COLLATE "C" THEN
        -- The slot of a periodic job has a key of its own, in the place that defines the periodic job.
        RETURN CASE WHEN unique_key NOT LIKE 'periodic:%' COLLATE "C" THEN unique_key END;
    ELSIF way = 'group' COLLATE "C" THEN
        RETURN group_key;
    ELSIF way = 'id' COLLATE "C" THEN
        RETURN NULL;
    END IF;
    member := CASE WHEN jsonb_typeof(args) = 'array' AND jsonb_typeof(args -> 0) = 'object' THEN args -> 0 ELSE args END;
    FOREACH name IN ARRAY _part_path(way) LOOP
        member := CASE
            WHEN jsonb_typeof(member) = 'object' THEN member -> name
            WHEN jsonb_typeof(member) = 'array' AND left(way, 1) = '/' AND name COLLATE "C" ~ '^(0|[1-9][0-9]{0,8})$'
                THEN member -> name::integer
        END;
    END LOOP;
    RETURN CASE jsonb_typeof(member) WHEN 'string' THEN member #>> '{}' ELSE canonical_json(member) END;
END
$$;
COMMENT ON FUNCTION _place_value IS 'The value of a job that decides its place. way: as kind.place. A member of the args that is a string counts as it is, any other by its canonical JSON. Null: the job has no such value, and may be in any place. The way id is always null here: only an id that the caller gave decides, which _new_job checks.';

CREATE FUNCTION _raise_wrong_place(kind text, way text, wanted text) RETURNS void
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'UQ004',
        MESSAGE = format(
            'a job of kind %s belongs to place %s by its %s, and this is place %s', to_json(kind), wanted,
            CASE
                WHEN way IN ('unique_key', 'group', 'id') THEN replace(way, '_', ' ')
                ELSE 'member ' || to_json(way) || ' of the args'
            END,
            place()
        ),
        DETAIL = json_build_object('kind', kind, 'wanted', wanted, 'found', place()),
        HINT = 'Nothing was inserted. Insert it into that place. place_of tells the place of a value.',
        SCHEMA = current_schema(), TABLE = 'job';
END
$$;
COMMENT ON FUNCTION _raise_wrong_place IS 'Raises error UQ004: by its way a job belongs to the place wanted. The DETAIL names kind, wanted, found.';

CREATE FUNCTION _refuse_misplaced() RETURNS trigger
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    misplaced record;
BEGIN
    SELECT e.kind, k.way, w.wanted INTO misplaced
    FROM entered AS e
    CROSS JOIN LATERAL (SELECT c.place AS way FROM kind AS c WHERE c.name = e.kind AND c.place IS NOT NULL LIMIT 1) AS k
    CROSS JOIN LATERAL (SELECT place_of(_place_value(k.way, e.unique_key, e.group_key, e.args))) AS w (wanted)
    WHERE w.wanted <> place() COLLATE "C"
    LIMIT 1;
    PERFORM _raise_wrong_place(misplaced.kind, misplaced.way, misplaced.wanted) WHERE FOUND;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION _refuse_misplaced IS 'Raises error UQ004 if an insert has a job that by its kind''s way belongs to another place.';

CREATE FUNCTION name_place(name text, hashed text[] DEFAULT NULL, adopt boolean DEFAULT false) RETURNS place
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_variable
DECLARE
    named place;
BEGIN
    hashed := nullif(hashed, '{}');
    IF name IS NULL OR octet_length(name) NOT BETWEEN 1 AND 128 THEN
        PERFORM _refuse(format('invalid name of a place: must be 1 to 128 bytes: %L', name));
    END IF;
    INSERT INTO place (name, hashed, database_id, named_at) VALUES (name, hashed, _database_id(), clock_timestamp())
    ON CONFLICT DO NOTHING;
    SELECT p.* INTO named FROM place AS p;
    IF named.name <> name COLLATE "C" OR (
        named.hashed IS DISTINCT FROM hashed
        -- A place outside of the list may learn of it later, and a map may leave the list out.
        AND (num_nonnulls(named.hashed, hashed) = 2 OR name COLLATE "C" = ANY (coalesce(named.hashed, hashed)))
    ) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('this schema is the place %s with the hashed places %s already: %s, %s', named.name, coalesce(named.hashed::text, 'none'), name, coalesce(hashed::text, 'none')),
            HINT = 'Mend the map of places. If the schema has no jobs yet, delete the row of the table place.';
    ELSIF place_is_copy() AND NOT adopt THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('this schema is a copy of place %s, which is in another database', name),
            HINT = 'If no other server has the place any more, call name_place with adopt => true.';
    END IF;
    UPDATE place AS p
    SET hashed = coalesce(hashed, p.hashed), database_id = CASE WHEN adopt THEN _database_id() ELSE p.database_id END
    WHERE (p.hashed IS NULL AND hashed IS NOT NULL) OR adopt;
    SELECT p.* INTO named FROM place AS p;
    IF named.hashed IS NOT NULL
        AND NOT EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = to_regclass('job') AND t.tgname = 'job_place')
    THEN
        CREATE TRIGGER job_place
            AFTER INSERT ON job
            REFERENCING NEW TABLE AS entered
            FOR EACH STATEMENT EXECUTE FUNCTION _refuse_misplaced();
        COMMENT ON TRIGGER job_place ON job IS
            'Refuses jobs that belong to another place. It exists where place.hashed is known.';
    END IF;
    RETURN named;
END
$$;
COMMENT ON FUNCTION name_place IS 'Makes this schema the place of this name, and returns its row. If it is that place already, nothing changes. Error 22023: it is another place, the hashed places differ, or it is a copy. hashed: the places that share hashed values, in the order of the map. Null: as known here. adopt: the place is in this database now, after a restore, a copy or pg_upgrade, and no other server has it.';

-- A place that ends here leaves a schema under its name that only says where it went. An absent schema would be made anew by
-- the next migration, and a key would have holders at both servers.

CREATE FUNCTION leave_tombstone(moved_to text) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '10s'
AS $$
DECLARE
    own CONSTANT text := current_schema();
    subject CONSTANT text := coalesce('place ' || place(), 'schema ' || own);
    stub text;
    -- They name types without their schema, so that they mean those of the tombstone.
    stubs CONSTANT text[] := ARRAY[
        format(
            'CREATE FUNCTION _moved() RETURNS boolean LANGUAGE plpgsql AS %L',
            format(
                'BEGIN RAISE EXCEPTION USING ERRCODE = %L, MESSAGE = %L, DETAIL = %L, HINT = %L; END', 'UQ005',
                format('%s has moved to %s', subject, moved_to), json_build_object('subject', subject, 'to', moved_to),
                'Connect there. Nothing was done here.'
            )
        )
    ] || ARRAY(
        SELECT CASE c.relkind
            WHEN 'c' THEN format('CREATE TYPE %I AS (%s)', c.relname, string_agg(format('%I %s', a.attname, b.type), ', ' ORDER BY a.attnum))
            ELSE format(
                -- A constant null would let the planner answer a condition on the column without the function.
                'CREATE VIEW %I AS SELECT %s FROM _moved() AS m (moved)', c.relname,
                string_agg(format('CASE WHEN m.moved THEN NULL::%s END AS %I', b.type, a.attname), ', ' ORDER BY a.attnum)
            )
        END
        FROM pg_class AS c
        INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        INNER JOIN pg_type AS t ON t.oid = a.atttypid
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN t.typnamespace <> c.relnamespace THEN format_type(t.oid, a.atttypmod)
                WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)
                ELSE 'text'
            END
        ) AS b (type)
        WHERE c.relnamespace = to_regnamespace(quote_ident(own)) AND c.relkind IN ('r', 'v', 'c')
        GROUP BY c.oid, c.relname, c.relkind
    ) || ARRAY(
        SELECT format(
            'CREATE FUNCTION %I(%s) RETURNS %s LANGUAGE sql SET search_path FROM CURRENT AS %L', p.proname,
            pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), format('SELECT %s FROM _moved()', coalesce(
                (
                    SELECT string_agg('NULL::' || format_type(o.type, NULL), ', ' ORDER BY o.place)
                    FROM unnest(p.proallargtypes, p.proargmodes) WITH ORDINALITY AS o (type, mode, place)
                    WHERE o.mode = 't'
                ),
                'NULL::' || format_type(p.prorettype, NULL)
            ))
        )
        FROM pg_proc AS p
        WHERE p.pronamespace = to_regnamespace(quote_ident(own)) AND p.prokind = 'f' AND left(p.proname, 1) <> '_'
    );
BEGIN
    -- Open transactions that insert end first, and no later one begins.
    LOCK TABLE job IN ACCESS EXCLUSIVE MODE;
    -- Counts are in unlogged tables, which no publication has, until they are added up.
    PERFORM _fold_history(1000000), fold_duplicates(1000000);
    EXECUTE format('ALTER SCHEMA %I RENAME TO %I', own, own || '_moved');
    EXECUTE format('CREATE SCHEMA %I', own);
    EXECUTE format('COMMENT ON SCHEMA %I IS %L', own, format('uniqueue: %s has moved to %s.', subject, moved_to));
    FOREACH stub IN ARRAY stubs LOOP
        EXECUTE stub;
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO PUBLIC', own);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO PUBLIC', own);
END
$$;
COMMENT ON FUNCTION leave_tombstone IS 'Ends the queue in this schema, which has moved: locks the table job, renames the schema to its name and _moved, and makes a schema under the old name in which every table, view and function for users raises error UQ005. The DETAIL is {"subject", "to"}. moved_to: where the queue is now, without a password.';
