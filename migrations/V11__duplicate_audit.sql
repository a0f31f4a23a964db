-- An audit of suppressed duplicates, switched on kind by kind. Runs with search_path set to the
-- queue's schema.
--
-- A duplicate writes nothing where its kind is not audited. Where it is, it appends one narrow row to
-- an unlogged table without an index: no row is locked, so that neither a hot key nor the caller's
-- open transaction holds anybody up; the row costs no WAL, and a transaction that wrote nothing else
-- need not wait for the disk when it commits. The runners' pruner folds those rows into a counter for
-- each key. What a crash of the server takes away is what was not folded yet.

CREATE TABLE duplicate_audit (
    since timestamptz NOT NULL DEFAULT now(),
    stopped_at timestamptz,
    last_at timestamptz,
    suppressed bigint NOT NULL DEFAULT 0,
    keep interval NOT NULL DEFAULT '7 days',
    kind text NOT NULL,
    CONSTRAINT duplicate_audit_pkey PRIMARY KEY (kind),
    CONSTRAINT duplicate_audit_kind_length CHECK (octet_length(kind) BETWEEN 1 AND 128),
    CONSTRAINT duplicate_audit_keep_not_negative CHECK (keep >= interval '0')
) WITH (fillfactor = 50);
COMMENT ON TABLE duplicate_audit IS
    'One row a kind whose suppressed duplicates are, or were, counted; audit_duplicates switches. Deleting a row forgets what was counted.';
COMMENT ON COLUMN duplicate_audit.since IS 'Since when they are counted.';
COMMENT ON COLUMN duplicate_audit.stopped_at IS 'Since when they are not counted any more; null: they are.';
COMMENT ON COLUMN duplicate_audit.last_at IS 'When the last one came, of those folded so far.';
COMMENT ON COLUMN duplicate_audit.suppressed IS 'How many came, of those folded so far. Counters of keys go with keep, this stays.';
COMMENT ON COLUMN duplicate_audit.keep IS 'How long the counter of a key is kept after its last duplicate. Default 7 days.';
COMMENT ON COLUMN duplicate_audit.kind IS 'The kind of the inserts that were duplicates.';
COMMENT ON CONSTRAINT duplicate_audit_pkey ON duplicate_audit IS 'One row a kind.';
COMMENT ON CONSTRAINT duplicate_audit_kind_length ON duplicate_audit IS 'A kind is 1 to 128 bytes.';
COMMENT ON CONSTRAINT duplicate_audit_keep_not_negative ON duplicate_audit IS
    'Nothing is kept for less than no time. For ever is a long time, such as 1000 years.';

-- Every insert that meets a holder looks here; the roles that insert need no new right for it.
GRANT SELECT ON duplicate_audit TO PUBLIC;

CREATE UNLOGGED TABLE duplicate_tally (
    at timestamptz NOT NULL,
    holder uuid NOT NULL,
    suppressed integer NOT NULL,
    kind text NOT NULL,
    unique_key text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);
COMMENT ON TABLE duplicate_tally IS
    'Suppressed duplicates that no counter has yet. Unlogged: empty after a crash of the server, and not there on a standby.';
COMMENT ON COLUMN duplicate_tally.at IS 'When they came.';
COMMENT ON COLUMN duplicate_tally.holder IS 'The job that claimed the key.';
COMMENT ON COLUMN duplicate_tally.suppressed IS 'How many inserts of one call.';
COMMENT ON COLUMN duplicate_tally.kind IS 'Their kind.';
COMMENT ON COLUMN duplicate_tally.unique_key IS 'Their unique key.';

CREATE TABLE duplicate_count (
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    last_holder uuid NOT NULL,
    suppressed bigint NOT NULL,
    kind text NOT NULL,
    unique_key text COLLATE "C" NOT NULL,
    CONSTRAINT duplicate_count_pkey PRIMARY KEY (unique_key, kind)
);
COMMENT ON TABLE duplicate_count IS
    'How many duplicates of a key were suppressed, by the kind of the inserts; as of the last fold. The view suppressed_duplicate adds what came since.';
COMMENT ON COLUMN duplicate_count.first_at IS 'When the first one came.';
COMMENT ON COLUMN duplicate_count.last_at IS 'When the last one came.';
COMMENT ON COLUMN duplicate_count.last_holder IS 'The job that the last one met.';
COMMENT ON COLUMN duplicate_count.suppressed IS 'How many.';
COMMENT ON COLUMN duplicate_count.kind IS 'The kind of the inserts.';
COMMENT ON COLUMN duplicate_count.unique_key IS 'The unique key.';
COMMENT ON CONSTRAINT duplicate_count_pkey ON duplicate_count IS 'One row a key and kind.';

CREATE INDEX duplicate_count_kind ON duplicate_count (kind, last_at);
COMMENT ON INDEX duplicate_count_kind IS 'Counters of a kind by age, for looking and for retention.';

CREATE FUNCTION note_duplicates(kinds text[], unique_keys text[], holders uuid[], counts integer[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
AS $$
-- With the rights of the schema's owner, so that the roles that insert need none of their own here.
-- It must never be the reason why an insert fails.
DECLARE
    largest CONSTANT bigint := 64 * 1024 * 1024;
    noted integer;
BEGIN
    -- A duplicate is answered in a transaction that may only read, too. And where nobody folds, there
    -- is an end to it; suppressed_by_kind tells.
    IF current_setting('transaction_read_only') = 'on' OR pg_relation_size('duplicate_tally') >= largest THEN
        RETURN 0;
    END IF;
    INSERT INTO duplicate_tally (at, holder, suppressed, kind, unique_key)
    SELECT clock_timestamp(), u.holder, u.count, u.kind, u.unique_key
    FROM unnest(kinds, unique_keys, holders, counts) AS u (kind, unique_key, holder, count)
    -- Whoever may use the schema may call this, so nothing but what an insert can have met is taken.
    WHERE u.count > 0
        AND octet_length(u.unique_key) BETWEEN 1 AND 512
        AND EXISTS (SELECT FROM duplicate_audit AS a WHERE a.kind = u.kind AND a.stopped_at IS NULL);
    GET DIAGNOSTICS noted = ROW_COUNT;
    RETURN noted;
END
$$;
COMMENT ON FUNCTION note_duplicates(text[], text[], uuid[], integer[]) IS
    'Notes suppressed duplicates of audited kinds in the caller''s transaction: kind and key of the inserts, the holder they met, how many of one sort. Answers with how many rows it wrote; none in a read-only transaction, nor once duplicate_tally has 64 MB because nobody folds it. Called by insert_jobs.';

CREATE FUNCTION fold_duplicates(size integer DEFAULT 10000) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
AS $$
DECLARE
    audited text[];
    folded integer;
BEGIN
    -- Who has a kind's row folds the kind; two at once share them, and nobody waits.
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
    -- retention, and all of a kind that was forgotten.
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
        SELECT d.unique_key, d.kind
        FROM kinds AS k
        LEFT JOIN duplicate_audit AS a ON a.kind = k.kind
        CROSS JOIN LATERAL (
            SELECT c.unique_key, c.kind
            FROM duplicate_count AS c
            WHERE c.kind = k.kind AND (a.kind IS NULL OR c.last_at < clock_timestamp() - a.keep)
            ORDER BY c.last_at
            LIMIT size
        ) AS d
        LIMIT size
    )
    DELETE FROM duplicate_count AS c
    USING doomed AS d
    WHERE c.unique_key = d.unique_key AND c.kind = d.kind;
    RETURN folded;
END
$$;
COMMENT ON FUNCTION fold_duplicates(integer) IS
    'Folds up to size rows of duplicate_tally into the counters, and deletes up to size counters past their retention. Answers with how many rows it folded: where that is size, there may be more. Called by the runners'' pruner every prune_interval; without a runner call it from elsewhere, every minute say.';

CREATE FUNCTION audit_duplicates(kind text, audit boolean DEFAULT true, keep interval DEFAULT NULL)
    RETURNS duplicate_audit
    LANGUAGE sql VOLATILE
    SET search_path FROM CURRENT
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
COMMENT ON FUNCTION audit_duplicates(text, boolean, interval) IS
    'For operators: counts the suppressed duplicates of a kind from now on, or (audit => false) no more. keep: how long the counter of a key is kept after its last duplicate; default as before, at first 7 days. To forget what was counted, delete the kind''s row of duplicate_audit.';

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
COMMENT ON VIEW suppressed_duplicate IS
    'How many inserts of audited kinds were duplicates, by kind and key: ignored, and rejected other than by an SQL error. Only what committed counts. By index for one key or one kind; reads all counters otherwise. Not on a standby: there, read duplicate_count.';
COMMENT ON COLUMN suppressed_duplicate.kind IS 'The kind of the inserts.';
COMMENT ON COLUMN suppressed_duplicate.unique_key IS 'Their unique key.';
COMMENT ON COLUMN suppressed_duplicate.suppressed IS 'How many.';
COMMENT ON COLUMN suppressed_duplicate.first_at IS 'When the first came, of those still counted.';
COMMENT ON COLUMN suppressed_duplicate.last_at IS 'When the last came.';
COMMENT ON COLUMN suppressed_duplicate.last_holder IS 'The job that the last one met; it may be gone.';

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
COMMENT ON VIEW suppressed_by_kind IS
    'The kinds whose suppressed duplicates are or were counted, and how many came. Not on a standby: there, read duplicate_audit.';
COMMENT ON COLUMN suppressed_by_kind.kind IS 'The kind of the inserts.';
COMMENT ON COLUMN suppressed_by_kind.is_audited IS 'Whether they are counted now.';
COMMENT ON COLUMN suppressed_by_kind.since IS 'Since when they are, or were, counted.';
COMMENT ON COLUMN suppressed_by_kind.stopped_at IS 'Since when they are not any more; null: they are.';
COMMENT ON COLUMN suppressed_by_kind.suppressed IS 'How many came since then, over all keys.';
COMMENT ON COLUMN suppressed_by_kind.last_at IS 'When the last came.';
COMMENT ON COLUMN suppressed_by_kind.keep IS 'How long the counter of a key is kept after its last duplicate.';
COMMENT ON COLUMN suppressed_by_kind.tally_is_full IS
    'Whether nothing is counted now because duplicate_tally has 64 MB: no runner folds it, or an old transaction keeps vacuum from its dead rows.';

-- With one more parameter, which has a default for clients that do not know it yet.
DROP FUNCTION insert_jobs(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], text[], boolean, interval
);

CREATE FUNCTION insert_jobs(
    ids uuid[],
    kinds text[],
    queues text[],
    args jsonb[],
    metas jsonb[],
    priorities smallint[],
    max_attempts smallint[],
    scheduled_ats timestamptz[],
    delays interval[],
    pendings boolean[],
    unique_keys text[],
    unique_states smallint[],
    periods interval[],
    ttls interval[],
    until_starts boolean[],
    discards_on_reentry boolean[],
    on_conflicts text[],
    in_order boolean DEFAULT false,
    max_wait interval DEFAULT NULL,
    folded integer[] DEFAULT NULL
)
RETURNS TABLE (input_id uuid, outcome text, replaced uuid, job job)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- One plan, made once, that probes by index however small the table was when it was made. What
    -- enable_seqscan adds to a cost would set off the JIT.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    -- now() stands still in the caller's transaction; a claim must not begin, or end, before its time.
    instant CONSTANT timestamptz := clock_timestamp();
    caller_lock_timeout CONSTANT text := current_setting('lock_timeout');
    size CONSTANT integer := coalesce(cardinality(ids), 0);
    -- Whether a job of this batch can replace another of it.
    has_twins CONSTANT boolean := (SELECT count(k.key) > count(DISTINCT k.key) FROM unnest(unique_keys) AS k (key));
    is_audited boolean := false;
    noted integer;
    answered bigint;
    turn record;
    holder job;
    entered job;
    is_replaced boolean;
    is_refused boolean := false;
    rounds integer;
    arrived timestamptz;
    due timestamptz;
    earlier integer;
    answers job[] := array_fill(NULL::job, ARRAY[size]);
    outcomes text[] := array_fill(NULL::text, ARRAY[size]);
    successions uuid[] := array_fill(NULL::uuid, ARRAY[size]);
BEGIN
    IF max_wait IS NOT NULL THEN
        PERFORM set_config(
            'lock_timeout',
            -- 0 would mean for ever, and PostgreSQL counts up to 24 days.
            least(2147483647, greatest(1, ceil(extract(epoch FROM max_wait) * 1000)))::bigint || 'ms',
            true
        );
    END IF;

    -- A job alone has nothing to be ordered against: the second pass serves it with less to set up.
    -- First pass: the whole batch in one statement. Rows that meet a holder are answered with it,
    -- the others are inserted. Trouble (an expired claim, a rival that was quicker, an id that is
    -- there already) gives everything back, so that the second pass can take keys in order.
    IF NOT in_order AND size > 1 THEN
        is_audited := EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL);
        BEGIN
            RETURN QUERY
            WITH input AS MATERIALIZED (
                SELECT
                    u.*,
                    coalesce(u.scheduled_at, instant + u.delay, instant) AS due_at,
                    h.id AS holder_id,
                    h.unique_until <= instant AS is_expired,
                    h::job AS holder
                FROM unnest(
                    ids, kinds, queues, args, metas, priorities, max_attempts, scheduled_ats, delays, pendings,
                    unique_keys, unique_states, periods, ttls, until_starts, discards_on_reentry, folded
                ) WITH ORDINALITY AS u (
                    id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                    unique_key, unique_states, period, ttl, until_start, discard_on_reentry, folded, place
                )
                -- LIMIT keeps this a probe for each row: a join could be planned to compare every
                -- row with every claim, and the plan is kept while the table grows.
                LEFT JOIN LATERAL (
                    SELECT c.* FROM job AS c WHERE c.unique_key = u.unique_key AND c.claims LIMIT 1
                ) AS h ON true
            ),
            entered AS (
                INSERT INTO job AS j (
                    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
                    unique_key, unique_states, unique_until, until_start, discard_on_reentry
                )
                SELECT
                    i.id, i.kind, i.queue, i.args, i.meta, i.priority, i.max_attempts, instant, i.due_at,
                    CASE
                        WHEN i.is_pending THEN 'pending'
                        WHEN i.due_at > instant THEN 'scheduled'
                        ELSE 'available'
                    END::job_state,
                    i.unique_key, i.unique_states,
                    coalesce(instant + i.period, greatest(instant, i.due_at) + i.ttl),
                    i.until_start, i.discard_on_reentry
                FROM input AS i
                WHERE i.holder_id IS NULL
                    AND NOT EXISTS (SELECT FROM input AS expired WHERE expired.is_expired)
                -- One fixed order for all, so that two batches can never deadlock.
                ORDER BY i.unique_key COLLATE "C", i.place
                ON CONFLICT DO NOTHING
                RETURNING j AS job
            ),
            answer AS (
                SELECT (e.job).id AS input_id, 'inserted' AS outcome, e.job
                FROM entered AS e
                UNION ALL
                SELECT i.id, 'duplicate', i.holder
                FROM input AS i
                WHERE NOT i.is_expired OR (i.holder_id IS NOT NULL AND i.is_expired IS NULL)
            )
            SELECT a.input_id, a.outcome, NULL::uuid, a.job
            FROM answer AS a
            WHERE size = (SELECT count(*) FROM answer)
                AND (
                    SELECT wake_runners(array_agg(DISTINCT (e.job).queue)) FROM entered AS e WHERE (e.job).ready
                ) IS NOT NULL
                AND CASE WHEN is_audited THEN (
                    -- Whom the first of equal keys met, if anybody, the others have met; else they have met it.
                    SELECT note_duplicates(
                        array_agg(i.kind), array_agg(i.unique_key), array_agg(coalesce(i.holder_id, i.id)),
                        array_agg(coalesce(i.folded, 0) + (i.holder_id IS NOT NULL)::integer)
                    )
                    FROM input AS i
                    WHERE i.holder_id IS NOT NULL OR i.folded > 0
                ) ELSE 0 END IS NOT NULL;
            GET DIAGNOSTICS answered = ROW_COUNT;
            IF answered = size THEN
                PERFORM set_config('lock_timeout', caller_lock_timeout, true);
                RETURN;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'first pass given back';
        EXCEPTION
            WHEN SQLSTATE 'UQ001' THEN
                NULL;
            WHEN lock_not_available THEN
                IF max_wait IS NULL THEN
                    RAISE;
                END IF;
                PERFORM set_config('lock_timeout', caller_lock_timeout, true);
                RETURN QUERY SELECT u.id, 'busy', NULL::uuid, NULL::job FROM unnest(ids) AS u (id);
                RETURN;
        END;
    END IF;

    -- Second pass: key by key in the same fixed order, each settled before the next is touched. A
    -- block of its own, so that a refusal gives back the whole batch and nothing else.
    BEGIN
        FOR turn IN
            SELECT u.*
            FROM unnest(
                ids, kinds, queues, args, metas, priorities, max_attempts, scheduled_ats, delays, pendings,
                unique_keys, unique_states, periods, ttls, until_starts, discards_on_reentry, on_conflicts
            ) WITH ORDINALITY AS u (
                id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                unique_key, unique_states, period, ttl, until_start, discard_on_reentry, on_conflict, place
            )
            -- Jobs without a key can still meet by their ids, so those are taken in one order, too.
            ORDER BY u.unique_key COLLATE "C", CASE WHEN u.unique_key IS NULL THEN u.id END, u.place
        LOOP
            rounds := 0;
            -- Each round is lost to a rival that committed meanwhile, so somebody always gets on.
            WHILE outcomes[turn.place] IS NULL LOOP
                rounds := rounds + 1;
                IF rounds > 10000 THEN
                    RAISE EXCEPTION USING
                        ERRCODE = 'serialization_failure',
                        MESSAGE = 'insert lost 10000 rounds against rivals for one unique key',
                        HINT = 'Something inserts and finishes jobs with this key without pause. Try again.';
                END IF;

                -- The same insert, sent again.
                SELECT j.* INTO entered FROM job AS j WHERE j.id = turn.id;
                IF FOUND THEN
                    answers[turn.place] := entered;
                    outcomes[turn.place] := 'inserted';
                    CONTINUE;
                END IF;

                holder := NULL;
                IF turn.unique_key IS NOT NULL THEN
                    SELECT h.* INTO holder FROM job AS h WHERE h.unique_key = turn.unique_key AND h.claims;
                END IF;

                IF holder.unique_until <= clock_timestamp() THEN
                    UPDATE job AS h
                    SET unique_states = 0
                    WHERE h.id = holder.id AND h.claims AND h.unique_until <= clock_timestamp();
                ELSIF holder.id IS NOT NULL AND coalesce(turn.on_conflict, 'ignore') = 'ignore' THEN
                    answers[turn.place] := holder;
                    outcomes[turn.place] := 'duplicate';
                    CONTINUE;
                ELSIF turn.on_conflict NOT IN ('ignore', 'reject', 'replace', 'replace_except_schedule') THEN
                    RAISE EXCEPTION USING
                        ERRCODE = 'invalid_parameter_value',
                        MESSAGE = format('unknown on_conflict: %L', turn.on_conflict),
                        HINT = 'One of ignore, reject, replace, replace_except_schedule.';
                ELSIF holder.id IS NOT NULL AND (turn.on_conflict = 'reject' OR holder.state = 'running') THEN
                    answers[turn.place] := holder;
                    outcomes[turn.place] := 'rejected';
                    is_refused := true;
                    CONTINUE;
                ELSIF holder.id IS NOT NULL THEN
                    -- Replace. In a block of its own, so that a holder that started or finished
                    -- meanwhile is not left locked by an update that changed nothing.
                    BEGIN
                        UPDATE job AS h
                        SET unique_states = 0,
                            replaced_by = turn.id,
                            state = CASE WHEN h.finalized_at IS NULL THEN 'cancelled' ELSE h.state END,
                            finalized_at = coalesce(h.finalized_at, clock_timestamp())
                        WHERE h.id = holder.id AND h.claims AND h.state <> 'running'
                        RETURNING h.* INTO entered;
                        is_replaced := FOUND;
                        IF NOT is_replaced THEN
                            RAISE EXCEPTION USING ERRCODE = 'UQ002', MESSAGE = 'the holder moved on';
                        END IF;
                    EXCEPTION
                        WHEN SQLSTATE 'UQ002' THEN
                            NULL;
                    END;
                    CONTINUE WHEN NOT is_replaced;
                    successions[turn.place] := holder.id;
                    earlier := CASE WHEN has_twins THEN array_position(ids, holder.id) END;
                    IF earlier IS NOT NULL THEN
                        answers[earlier] := entered;
                    END IF;
                    -- A holder that waits for no time of its own has no schedule to keep.
                    IF turn.on_conflict = 'replace_except_schedule' AND holder.state = 'scheduled' THEN
                        turn.scheduled_at := holder.scheduled_at;
                    END IF;
                END IF;

                arrived := clock_timestamp();
                due := coalesce(turn.scheduled_at, arrived + turn.delay, arrived);
                INSERT INTO job AS j (
                    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
                    unique_key, unique_states, unique_until, until_start, discard_on_reentry
                )
                VALUES (
                    turn.id, turn.kind, turn.queue, turn.args, turn.meta, turn.priority, turn.max_attempts,
                    arrived, due,
                    CASE
                        WHEN turn.is_pending THEN 'pending'
                        WHEN due > arrived THEN 'scheduled'
                        ELSE 'available'
                    END::job_state,
                    turn.unique_key, turn.unique_states,
                    coalesce(arrived + turn.period, greatest(arrived, due) + turn.ttl),
                    turn.until_start, turn.discard_on_reentry
                )
                ON CONFLICT DO NOTHING
                RETURNING j.* INTO entered;
                IF FOUND THEN
                    answers[turn.place] := entered;
                    outcomes[turn.place] := 'inserted';
                END IF;
            END LOOP;
        END LOOP;
        IF is_refused THEN
            RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'refused';
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'UQ001' THEN
            NULL;
        WHEN lock_not_available THEN
            IF max_wait IS NULL THEN
                RAISE;
            END IF;
            PERFORM set_config('lock_timeout', caller_lock_timeout, true);
            RETURN QUERY SELECT u.id, 'busy', NULL::uuid, NULL::job FROM unnest(ids) AS u (id);
            RETURN;
    END;
    PERFORM set_config('lock_timeout', caller_lock_timeout, true);
    IF is_refused OR folded IS NOT NULL OR 'duplicate' = ANY (outcomes) THEN
        is_audited := EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL);
    END IF;
    IF is_audited THEN
        IF size = 1 THEN
            -- As an expression it costs half of what a query would.
            noted := note_duplicates(
                kinds, unique_keys, ARRAY[(answers[1]).id],
                ARRAY[coalesce(folded[1], 0) + (outcomes[1] <> 'inserted')::integer]
            );
        ELSE
            PERFORM note_duplicates(
                array_agg(u.kind), array_agg(u.unique_key), array_agg((answers[u.place]).id),
                array_agg(coalesce(u.folded, 0) + (u.outcome <> 'inserted')::integer)
            )
            FROM unnest(kinds, unique_keys, folded, outcomes)
                WITH ORDINALITY AS u (kind, unique_key, folded, outcome, place)
            WHERE u.outcome = 'rejected' OR (NOT is_refused AND (u.outcome = 'duplicate' OR u.folded > 0));
        END IF;
    END IF;
    IF NOT is_refused THEN
        PERFORM wake_runners(array_agg(DISTINCT a.queue))
        FROM unnest(answers) AS a
        WHERE a.ready AND a.id = ANY (ids)
        HAVING count(*) > 0;
    END IF;
    RETURN QUERY
    SELECT ids[u.place], outcomes[u.place], successions[u.place], answers[u.place]
    FROM generate_series(1, size) AS u (place)
    WHERE NOT is_refused OR outcomes[u.place] = 'rejected';
END
$$;
COMMENT ON FUNCTION insert_jobs(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], text[], boolean, interval, integer[]
) IS
    'Inserts a batch of jobs, all or nothing, one array an attribute and one place a job. Answers once an input: inserted, duplicate (job is the holder), rejected (nothing was inserted) or busy (max_wait ran out, nothing was inserted). in_order takes key by key, as on_conflict other than ignore, equal keys in the batch and ids that may exist need; without it the keys of a batch must differ. folded: how many more inputs of the caller each place stands for, which are its duplicates, for the audit. The front door for people is insert_job.';
