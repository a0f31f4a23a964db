-- Inserting jobs that ignore duplicates.

CREATE FUNCTION new_job_id() RETURNS uuid
    -- PL/pgSQL takes a third of the time that SQL takes.
    LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
    microseconds CONSTANT bigint := trunc(extract(epoch FROM clock_timestamp()) * 1000000);
BEGIN
    -- RFC 9562, version 7: milliseconds, then microseconds as twelve bits, then random ones, of which version 4 has the variant
    -- in the right place.
    RETURN lpad(to_hex(microseconds / 1000), 12, '0')
        || '7'
        || lpad(to_hex(microseconds % 1000 * 4096 / 1000), 3, '0')
        || substr(replace(gen_random_uuid()::text, '-', ''), 17);
END
$$;
COMMENT ON FUNCTION new_job_id IS 'A new UUIDv7. Ids follow the clock to the microsecond.';

-- Three ways lead into the job table. src/store/insert chooses among them for Rust, insert_jobs for SQL:
--
--   plain       rows without a key and without a given id: INSERT, and nothing else.
--   unique      _insert_unique: a search for holders, then INSERT of the rows that have none.
--   one by one  _insert_one for one job, _insert_one_by_one for several. Where a key takes more than a look, or a job asks
--               for more than ignore, they take the keys one by one, in their order.

CREATE TYPE new_job AS (
    place integer,
    id uuid,
    may_exist boolean,
    kind text,
    queue text,
    args jsonb,
    meta jsonb,
    priority smallint,
    max_attempts smallint,
    scheduled_at timestamptz,
    delay interval,
    is_pending boolean,
    unique_key text COLLATE "C",
    unique_states smallint,
    period interval,
    ttl interval,
    until_start boolean,
    discard_on_reentry boolean,
    on_conflict text COLLATE "C",
    changes update_terms,
    group_key text,
    group_limit smallint,
    in_order boolean,
    canonical text,
    expires_at timestamptz,
    expires_in interval
);
COMMENT ON TYPE new_job IS 'The arguments of an insert, checked and completed. place: the position in the batch, counted from 1. may_exist: the caller gave the id, so a job may have it. on_conflict, changes: as _read_unique_policy returns them. canonical: the text from which the unique key is made. Null: a raw key, no key, or not known. expires_in: counted from when the job is due.';

CREATE TYPE insert_answer AS (
    place integer,
    outcome text,
    replaced uuid,
    id uuid,
    state job_state,
    created_at timestamptz,
    scheduled_at timestamptz,
    unique_until timestamptz,
    unique_key text COLLATE "C",
    job job,
    earlier integer
);
COMMENT ON TYPE insert_answer IS 'The result of one insert. place: null for the answer of every place that no other row names. outcome: inserted, duplicate, updated, covered, rejected or busy. created_at: null if a job with the id was there before. job: the row that answers, which is the holder unless the job is new. Null: the new job as it was given. earlier: the place of the job of the batch that a rejected one met.';

CREATE FUNCTION _not_by_scan(claims boolean) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE COST 1000000
AS $$
BEGIN
    RETURN claims;
END
$$;
COMMENT ON FUNCTION _not_by_scan IS 'Returns its argument and declares a high cost. The planner adds that cost for each row of a table scan. Beside a condition that implies the index on claiming jobs, the function is never called. So a plan that is made and kept while the table is small does not scan the table when it is large.';

CREATE FUNCTION _not_by_partial_index(condition boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN condition IS NOT DISTINCT FROM true;
COMMENT ON FUNCTION _not_by_partial_index IS 'Returns whether its argument is true, in a form that no partial index serves. Statements that find jobs by their ids use it. A plan that is made while few jobs claim a key or run would otherwise read the whole index of these jobs, and be kept when there are many.';

CREATE FUNCTION _insert_unique(
    jobs new_job[], keys text[], OUT answers insert_answer[], OUT woken uuid[], OUT stopped uuid[]
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    -- now() stands still in the caller's transaction; a claim must not begin, or end, before its time.
    instant CONSTANT timestamptz := clock_timestamp();
    -- The jobs that have no answer yet.
    rest new_job[] := jobs;
    held insert_answer[];
    entered integer;
    -- The answers of the new jobs that have times of their own, without places: of a round, and of all rounds.
    others insert_answer[];
    timed insert_answer[] := '{}';
BEGIN
    answers := '{}';
    FOR round IN 1..10 LOOP
        -- First a look, which waits for no transaction that changes a holder. The index alone does not tell a duplicate: a
        -- job that does not claim its key in its first state meets no entry there. Most keys are new, and one scan tells that.
        -- A lateral subquery is a probe for each key, where the planner would make a join with all claims of EXISTS.
        held := '{}';
        IF EXISTS (SELECT FROM job AS c WHERE c.unique_key = ANY (keys) AND c.claims) THEN
            held := ARRAY(
                SELECT
                    (k.place, 'duplicate', NULL, c.id, (c.job).state, NULL, NULL, NULL, k.unique_key, c.job, NULL)::insert_answer
                FROM unnest(rest) AS k
                CROSS JOIN LATERAL (
                    SELECT c.id, c::job AS job
                    FROM job AS c
                    WHERE c.unique_key = k.unique_key AND c.claims
                        AND (c.unique_until IS NULL OR c.unique_until > clock_timestamp())
                        AND NOT _has_expired(c.expires_at, c.state, clock_timestamp())
                    LIMIT 1
                ) AS c
            );
        END IF;
        IF held <> '{}' THEN
            answers := answers || held;
            rest := ARRAY(
                SELECT u::new_job FROM unnest(rest) AS u WHERE u.place NOT IN (SELECT h.place FROM unnest(held) AS h)
            );
        END IF;
        -- Then the others in one fixed order for all, so that two batches can never deadlock. The statement stops at the first
        -- key that is contested, and takes none behind it before that one is settled. A block that could be rolled back would
        -- keep rivals waiting until the whole transaction ends, also after a rollback to a savepoint.
        PERFORM set_config('uniqueue.entered', '0', true);
        WITH entered AS (
            INSERT INTO job AS j (
                id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
                unique_key, unique_states, unique_until, until_start, discard_on_reentry, group_key, group_limit, in_order,
                expires_at, expires_in
            )
            SELECT
                u.id, u.kind, u.queue, u.args, u.meta, u.priority, u.max_attempts, instant, d.due_at,
                CASE WHEN u.is_pending THEN 'pending' WHEN d.due_at > instant THEN 'scheduled' ELSE 'available' END
                    ::job_state,
                u.unique_key, u.unique_states,
                coalesce(_length_after(instant, u.period), _length_after(greatest(instant, d.due_at), u.ttl)),
                u.until_start, u.discard_on_reentry, u.group_key, u.group_limit, u.in_order,
                coalesce(
                    u.expires_at, CASE WHEN NOT u.is_pending THEN _length_after(greatest(instant, d.due_at), u.expires_in) END
                ),
                u.expires_in
            FROM unnest(rest) WITH ORDINALITY AS u
            CROSS JOIN LATERAL (SELECT coalesce(u.scheduled_at, instant + u.delay, instant)) AS d (due_at)
            -- Evaluated for each row after the one before it was inserted, or was not.
            WHERE u.ordinality = current_setting('uniqueue.entered')::bigint + 1
            ON CONFLICT (unique_key) WHERE claims DO NOTHING
            RETURNING
                j.id, j.state, j.scheduled_at, j.unique_until,
                set_config('uniqueue.entered', (current_setting('uniqueue.entered')::bigint + 1)::text, true)
        )
        SELECT
            count(*),
            array_agg(
                (NULL, 'inserted', NULL, e.id, e.state, instant, e.scheduled_at, e.unique_until, NULL, NULL, NULL)::insert_answer
            ) FILTER (WHERE e.state <> 'available' OR e.scheduled_at <> instant OR e.unique_until IS NOT NULL)
        INTO entered, others
        FROM entered AS e;
        timed := timed || others;
        EXIT WHEN entered = cardinality(rest);
        rest := rest[entered + 1 :];
        -- A rival, an expired claim, or a holder that ended meanwhile.
        held := (_insert_one_by_one(CASE WHEN round < 10 THEN rest[1:1] ELSE rest END, instant)).answers;
        answers := answers || ARRAY(SELECT h FROM unnest(held) AS h WHERE h.place IS NOT NULL);
        rest := CASE WHEN round < 10 THEN rest[2:] ELSE '{}' END;
        EXIT WHEN rest = '{}';
    END LOOP;
    IF cardinality(answers) = cardinality(jobs) THEN
        woken := ARRAY(SELECT a.id FROM unnest(answers) AS a WHERE a.outcome = 'inserted');
        RETURN;
    END IF;
    answers := answers
        || (NULL, 'inserted', NULL, NULL, 'available', instant, instant, NULL, NULL, NULL, NULL)::insert_answer;
    IF timed <> '{}' THEN
        answers := answers || ARRAY(
            SELECT (
                u.place, t.outcome, t.replaced, t.id, t.state, t.created_at, t.scheduled_at, t.unique_until, u.unique_key,
                t.job, t.earlier
            )::insert_answer
            FROM unnest(timed) AS t
            INNER JOIN unnest(jobs) AS u ON u.id = t.id
        );
    END IF;
END
$$;
COMMENT ON FUNCTION _insert_unique IS 'Inserts jobs that have new ids, different keys, and ignore as on_conflict, given in the order of their keys, in that order. keys: their keys. A key that needs more than a look-up is settled by _insert_one_by_one. answers: one without a place is for every job that no other names. woken: the jobs that may start. Null: all. stopped: null.';
