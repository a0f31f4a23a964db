-- An audit of suppressed duplicates, switched on kind by kind.
--
-- A duplicate writes nothing where its kind is not audited. Where it is, the insert appends one narrow row to an
-- unlogged table without an index. It locks no row, so a hot key or an open transaction delays no other insert. It
-- writes no WAL, so a transaction that wrote nothing else does not wait for the disk when it commits. The pruner adds
-- these rows up into a counter for each key. A crash of the server loses what was not added up yet.

CREATE TABLE duplicate_audit (
    since timestamptz NOT NULL DEFAULT now(),
    stopped_at timestamptz,
    last_at timestamptz,
    suppressed bigint NOT NULL DEFAULT 0,
    keep interval NOT NULL DEFAULT '7 days',
    kind short_name NOT NULL,
    CONSTRAINT duplicate_audit_pkey PRIMARY KEY (kind),
    CONSTRAINT duplicate_audit_keep_not_negative CHECK (keep >= interval '0')
) WITH (fillfactor = 50);
COMMENT ON TABLE duplicate_audit IS 'One row per kind whose suppressed duplicates are or were counted. audit_duplicates starts and stops it.';
COMMENT ON COLUMN duplicate_audit.since IS 'When the count started.';
COMMENT ON COLUMN duplicate_audit.stopped_at IS 'When the count stopped. Null: it goes on.';
COMMENT ON COLUMN duplicate_audit.last_at IS 'When the last duplicate came, without those in duplicate_tally.';
COMMENT ON COLUMN duplicate_audit.suppressed IS 'The number of suppressed duplicates of the kind, without those in duplicate_tally. It stays when the counters of keys are deleted.';
COMMENT ON COLUMN duplicate_audit.keep IS 'How long the counter of a key is kept after its last duplicate. Default 7 days.';
COMMENT ON COLUMN duplicate_audit.kind IS 'The kind of the inserts that were duplicates.';
COMMENT ON CONSTRAINT duplicate_audit_keep_not_negative ON duplicate_audit IS 'A retention is not negative. To keep counters for ever, set a long time, such as 1000 years.';

-- Every insert that meets a holder reads this table. The roles that insert need no other right for it.
GRANT SELECT ON duplicate_audit TO PUBLIC;

CREATE UNLOGGED TABLE duplicate_tally (
    at timestamptz NOT NULL,
    holder uuid NOT NULL,
    suppressed integer NOT NULL,
    kind text COLLATE "C" NOT NULL,
    unique_key text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);
COMMENT ON TABLE duplicate_tally IS 'Suppressed duplicates that are not in a counter yet. A crash of the server empties it.';
COMMENT ON COLUMN duplicate_tally.at IS 'When the duplicates came.';
COMMENT ON COLUMN duplicate_tally.holder IS 'The job that claimed the key.';
COMMENT ON COLUMN duplicate_tally.suppressed IS 'The number of duplicates of one call.';
COMMENT ON COLUMN duplicate_tally.kind IS 'The kind of the inserts.';
COMMENT ON COLUMN duplicate_tally.unique_key IS 'The unique key of the inserts.';

CREATE TABLE duplicate_count (
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    last_holder uuid NOT NULL,
    suppressed bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    unique_key text COLLATE "C" NOT NULL,
    CONSTRAINT duplicate_count_pkey PRIMARY KEY (unique_key, kind)
);
COMMENT ON TABLE duplicate_count IS 'One row per kind and key: the number of suppressed duplicates at the last fold.';
COMMENT ON COLUMN duplicate_count.first_at IS 'When the first duplicate came.';
COMMENT ON COLUMN duplicate_count.last_at IS 'When the last duplicate came.';
COMMENT ON COLUMN duplicate_count.last_holder IS 'The job that the last duplicate met.';
COMMENT ON COLUMN duplicate_count.suppressed IS 'The number of suppressed duplicates.';
COMMENT ON COLUMN duplicate_count.unique_key IS 'The unique key.';

CREATE INDEX duplicate_count_kind ON duplicate_count (kind, last_at);
COMMENT ON INDEX duplicate_count_kind IS 'Counters of a kind by age. Views and the retention read it.';

CREATE FUNCTION _note_duplicates(kinds text[], unique_keys text[], holders uuid[], counts integer[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
AS $$
-- Runs with the rights of the schema's owner, so that the roles that insert need none on these tables.
-- An insert must not fail because of its audit.
DECLARE
    largest CONSTANT bigint := 64 * 1024 * 1024;
    noted integer;
BEGIN
    -- The limit of the table where no pruner folds it. suppressed_by_kind shows that it is reached.
    IF pg_relation_size('duplicate_tally') >= largest THEN
        RETURN 0;
    END IF;
    INSERT INTO duplicate_tally (at, holder, suppressed, kind, unique_key)
    SELECT clock_timestamp(), u.holder, u.count, u.kind, u.unique_key
    FROM unnest(kinds, unique_keys, holders, counts) AS u (kind, unique_key, holder, count)
    -- Every role with USAGE on the schema can call this, so the rows are checked as an insert's would be.
    WHERE u.count > 0
        AND octet_length(u.unique_key) BETWEEN 1 AND 512
        AND EXISTS (SELECT FROM duplicate_audit AS a WHERE a.kind = u.kind AND a.stopped_at IS NULL);
    GET DIAGNOSTICS noted = ROW_COUNT;
    RETURN noted;
END
$$;
COMMENT ON FUNCTION _note_duplicates(text[], text[], uuid[], integer[]) IS 'Notes suppressed duplicates of audited kinds in the caller''s transaction. Each element gives the kind and key of the inserts, the holder that they met, and their number. Writes nothing when duplicate_tally has 64 MB. Returns the number of rows that it wrote. The inserting functions call it.';

CREATE FUNCTION fold_duplicates(size integer DEFAULT 10000) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    -- Counters are looked for by the index in its order, however many of them are old: a bitmap would be made of all.
AS $$
DECLARE
    -- Half of what ends the counting (see _note_duplicates).
    large CONSTANT bigint := 32 * 1024 * 1024;
    instant CONSTANT timestamptz := clock_timestamp();
    audited text[];
    folded integer;
BEGIN
    -- The lock on a kind's row is the right to fold the kind. Two folds at once share the kinds, and neither waits.
    audited := ARRAY(SELECT a.kind FROM duplicate_audit AS a FOR NO KEY UPDATE SKIP LOCKED);
    WITH taken AS (
        DELETE FROM duplicate_tally AS t
        WHERE t.ctid = ANY (ARRAY(
            SELECT s.ctid
            FROM duplicate_tally AS s
            WHERE s.kind = ANY (audited) OR NOT EXISTS (SELECT FROM duplicate_audit AS a WHERE a.kind = s.kind)
            LIMIT size
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING t.at, t.holder, t.suppressed, t.kind, t.unique_key
    ),
    counted AS (
        INSERT INTO duplicate_count AS c (first_at, last_at, last_holder, suppressed, kind, unique_key)
        SELECT
            min(t.at), max(t.at), (array_agg(t.holder ORDER BY t.at DESC))[1], sum(t.suppressed), t.kind, t.unique_key
        FROM taken AS t
        WHERE t.kind = ANY (audited)
        GROUP BY t.kind, t.unique_key
        ON CONFLICT (unique_key, kind) DO UPDATE SET
            first_at = least(c.first_at, excluded.first_at),
            last_at = greatest(c.last_at, excluded.last_at),
            last_holder = CASE WHEN excluded.last_at >= c.last_at THEN excluded.last_holder ELSE c.last_holder END,
            suppressed = c.suppressed + excluded.suppressed
    ),
    totalled AS (
        UPDATE duplicate_audit AS a
        SET suppressed = a.suppressed + k.suppressed,
            last_at = greatest(a.last_at, k.last_at)
        FROM (
            SELECT t.kind, sum(t.suppressed) AS suppressed, max(t.at) AS last_at FROM taken AS t GROUP BY t.kind
        ) AS k
        WHERE a.kind = k.kind
    )
    SELECT count(*) INTO folded FROM taken;

    -- From one kind to the next along the index, and of each the oldest counters: those past their
    -- retention, and all of a kind whose row was deleted. Kinds that another fold has locked are left to it.
    WITH RECURSIVE kinds AS (
        (SELECT c.kind FROM duplicate_count AS c ORDER BY c.kind LIMIT 1)
        UNION ALL
        SELECT n.kind
        FROM kinds AS k
        CROSS JOIN LATERAL (
            SELECT c.kind FROM duplicate_count AS c WHERE c.kind > k.kind ORDER BY c.kind LIMIT 1
        ) AS n
    ),
    doomed AS (
        SELECT d.ctid
        FROM kinds AS k
        LEFT JOIN duplicate_audit AS a ON a.kind = k.kind
        CROSS JOIN LATERAL (
            SELECT c.ctid
            FROM duplicate_count AS c
            WHERE c.kind = k.kind
                AND c.last_at < CASE
                    WHEN a.kind IS NULL THEN 'infinity'
                    -- keep can be as long as an interval, and the difference must stay a valid time.
                    ELSE instant - least(a.keep, interval '1000 years')
                END
            ORDER BY c.last_at
            LIMIT size
            -- Asked of the counter as it is when it is locked: it may have come to count again.
            FOR UPDATE SKIP LOCKED
        ) AS d
        WHERE a.kind IS NULL OR k.kind = ANY (audited)
        LIMIT size
    )
    DELETE FROM duplicate_count AS c
    WHERE c.ctid = ANY (ARRAY(SELECT d.ctid FROM doomed AS d));

    -- _note_duplicates stops at the size of the table, and folded rows leave their pages in it. Vacuum does not
    -- truncate the table, and TRUNCATE works under an old snapshot as well. NOWAIT, so that no insert waits behind this
    -- lock. A transaction that has added rows locks the table until it ends, so an empty table has none uncommitted.
    -- Only under READ COMMITTED does the check see rows that were committed meanwhile.
    IF folded < size
        AND current_setting('transaction_isolation') = 'read committed'
        AND pg_relation_size('duplicate_tally') >= large
        AND NOT EXISTS (SELECT FROM duplicate_tally)
    THEN
        BEGIN
            LOCK TABLE duplicate_tally IN ACCESS EXCLUSIVE MODE NOWAIT;
            IF NOT EXISTS (SELECT FROM duplicate_tally) THEN
                TRUNCATE duplicate_tally;
            END IF;
        EXCEPTION
            -- In use: the next fold tries again.
            WHEN lock_not_available OR object_in_use THEN
                NULL;
        END;
    END IF;
    RETURN folded;
END
$$;
COMMENT ON FUNCTION fold_duplicates(integer) IS 'Adds up to size rows of duplicate_tally to the counters, and deletes up to size counters past their retention. Returns the number of added rows. If that is size, there may be more. An empty duplicate_tally of 32 MB or more is truncated, unless an open transaction has used it. The pruner of a runner calls this every prune_interval. Without a runner call it every minute, in a transaction of its own.';

CREATE FUNCTION audit_duplicates(kind text, audit boolean DEFAULT true, keep interval DEFAULT NULL)
    RETURNS duplicate_audit
    LANGUAGE sql VOLATILE
AS $$
    INSERT INTO duplicate_audit AS a (kind, since, stopped_at, keep)
    VALUES (
        audit_duplicates.kind, clock_timestamp(), CASE WHEN NOT audit THEN clock_timestamp() END,
        coalesce(audit_duplicates.keep, interval '7 days')
    )
    ON CONFLICT (kind) DO UPDATE SET
        -- What was counted before a pause stays, and so does its beginning.
        stopped_at = CASE WHEN NOT audit THEN coalesce(a.stopped_at, excluded.stopped_at) END,
        keep = coalesce(audit_duplicates.keep, a.keep)
    RETURNING a.*
$$;
COMMENT ON FUNCTION audit_duplicates(text, boolean, interval) IS 'Starts counting the suppressed duplicates of a kind, or stops with audit => false. keep is how long the counter of a key is kept after its last duplicate. Its default is the value set before, at first 7 days. To delete the counts, delete the kind''s row of duplicate_audit.';

CREATE VIEW suppressed_duplicate AS
SELECT
    d.kind,
    d.unique_key,
    sum(d.suppressed)::bigint AS suppressed,
    min(d.first_at) AS first_at,
    max(d.last_at) AS last_at,
    (array_agg(d.holder ORDER BY d.last_at DESC))[1] AS last_holder
FROM (
    SELECT c.kind, c.unique_key, c.suppressed, c.first_at, c.last_at, c.last_holder AS holder FROM duplicate_count AS c
    UNION ALL
    SELECT t.kind, t.unique_key, t.suppressed, t.at, t.at, t.holder FROM duplicate_tally AS t
) AS d
GROUP BY d.kind, d.unique_key;
COMMENT ON VIEW suppressed_duplicate IS 'One row per kind and key: how many inserts of audited kinds were suppressed. Counts duplicates that were ignored, and those that were rejected other than by an SQL error. Only committed duplicates count. A query by key or by kind uses an index. A standby cannot read the view: read duplicate_count there.';

CREATE VIEW suppressed_by_kind AS
SELECT
    a.kind,
    a.stopped_at IS NULL AS is_audited,
    a.since,
    a.stopped_at,
    a.suppressed + coalesce(t.suppressed, 0) AS suppressed,
    greatest(a.last_at, t.last_at) AS last_at,
    a.keep,
    pg_relation_size('duplicate_tally'::regclass) >= 67108864 AS tally_is_full
FROM duplicate_audit AS a
LEFT JOIN (
    SELECT s.kind, sum(s.suppressed)::bigint AS suppressed, max(s.at) AS last_at
    FROM duplicate_tally AS s
    GROUP BY s.kind
) AS t ON t.kind = a.kind;
COMMENT ON VIEW suppressed_by_kind IS 'One row per kind whose suppressed duplicates are or were counted. A standby cannot read it.';
COMMENT ON COLUMN suppressed_by_kind.is_audited IS 'Whether the duplicates of the kind are counted now.';
COMMENT ON COLUMN suppressed_by_kind.suppressed IS 'The number of suppressed duplicates since then, over all keys.';
COMMENT ON COLUMN suppressed_by_kind.tally_is_full IS 'Whether nothing is counted now because duplicate_tally has 64 MB. Either no runner folds it, or an open transaction has used it and prevents its emptying.';
