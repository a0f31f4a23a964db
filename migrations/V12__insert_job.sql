-- Inserting for people: the same with a job's policies as JSON.

CREATE FUNCTION _is_to_100_years(length interval) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- PostgreSQL compares intervals as if a year had 360 days, so the years are added to a time.
    RETURN length BETWEEN interval '0' AND interval '36525 days' AND timestamp 'epoch' + length <= timestamp '2070-01-01';
COMMENT ON FUNCTION _is_to_100_years IS 'Whether a length of time is 0 to 100 years, which are 36,525 days.';

CREATE FUNCTION _check_expiry(expires_at timestamptz, expires_in interval, scheduled_at timestamptz) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN _refuse(CASE
        WHEN expires_at IS NOT NULL AND expires_in IS NOT NULL THEN 'invalid expires_in: not together with expires_at'
        WHEN expires_at <> 'infinity' AND (expires_at < '0001-01-01 00:00:00+00' OR expires_at >= '9001-01-01 00:00:00+00') THEN
            format('invalid expires_at: must be in the years 1 to 9000, or infinity: %s', expires_at)
        WHEN expires_at <= scheduled_at THEN
            format('invalid expires_at: must be after scheduled_at: %s and %s', expires_at, scheduled_at)
        WHEN expires_in = interval '0' OR NOT _is_to_100_years(expires_in) THEN
            format('invalid expires_in: must be more than 0 and at most 100 years: %s', expires_in)
    END);
COMMENT ON FUNCTION _check_expiry IS 'Raises error 22023 if a job cannot have this expires_at or expires_in.';

CREATE FUNCTION _new_job(
    kind text, args jsonb, queue text, meta jsonb, priority integer, max_attempts integer, scheduled_at timestamptz,
    unique_policy jsonb, id uuid, pending boolean, group_key text, group_policy jsonb, group_limit integer,
    in_order boolean, expires_at timestamptz DEFAULT NULL, expires_in interval DEFAULT NULL
) RETURNS new_job
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    claim record;
    of_kind record;
    of_group record;
BEGIN
    IF expires_at IS NOT NULL OR expires_in IS NOT NULL THEN
        PERFORM _check_expiry(expires_at, expires_in, scheduled_at);
    END IF;
    -- What the arguments leave out is the kind's, else the same for all kinds.
    SELECT k.* INTO of_kind FROM kind AS k WHERE k.name = kind COLLATE "C";
    IF FOUND THEN
        IF expires_at IS NULL THEN
            expires_in := coalesce(expires_in, of_kind.expires_in);
        END IF;
        queue := coalesce(queue, of_kind.queue);
        priority := coalesce(priority, of_kind.priority);
        max_attempts := coalesce(max_attempts, of_kind.max_attempts);
        unique_policy := coalesce(unique_policy, of_kind.unique_policy);
        IF scheduled_at IS NULL AND pending IS NOT TRUE THEN
            scheduled_at := clock_timestamp() + of_kind.delay;
        END IF;
        IF group_key IS NULL THEN
            group_policy := coalesce(group_policy, of_kind.group_policy);
        END IF;
        -- Without a group there is nothing to limit.
        IF group_policy IS DISTINCT FROM 'null' THEN
            group_limit := coalesce(group_limit, of_kind.group_limit);
            in_order := coalesce(in_order, of_kind.in_order);
        END IF;
        -- The table's trigger checks the other ways. It cannot tell an id that was given. Slots have ids of their own.
        IF id IS NOT NULL AND of_kind.place = 'id' AND place_of(id::text) <> place() COLLATE "C" AND NOT meta ? 'periodic' THEN
            PERFORM _raise_wrong_place(kind, of_kind.place, place_of(id::text));
        END IF;
    END IF;
    queue := coalesce(queue, 'default');
    unique_policy := nullif(unique_policy, 'null');
    group_policy := nullif(group_policy, 'null');
    priority := coalesce(priority, 0);
    max_attempts := coalesce(max_attempts, 25);
    pending := coalesce(pending, false);

    claim := _job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy);
    IF group_key IS NOT NULL OR group_policy IS NOT NULL OR group_limit IS NOT NULL OR in_order THEN
        PERFORM _refuse(CASE
            WHEN group_key IS NOT NULL AND group_policy IS NOT NULL THEN 'invalid group_policy: not together with group_key'
            WHEN group_key IS NULL AND group_policy IS NULL THEN
                'invalid ' || CASE WHEN group_limit IS NULL THEN 'in_order' ELSE 'group_limit' END
                    || ': needs a group_key or a group_policy'
            WHEN octet_length(group_key) NOT BETWEEN 1 AND 512 THEN
                format('invalid group_key: must be 1 to 512 bytes: %s', octet_length(group_key))
            WHEN group_limit NOT BETWEEN 1 AND 32767 THEN format('invalid group_limit: must be 1 to 32767: %s', group_limit)
            WHEN in_order AND group_limit > 1 THEN
                format('invalid group_limit: must be 1 for a job that is in_order: %s', group_limit)
            WHEN group_policy ? 'window' THEN 'invalid group_policy: window: a group has none'
        END);
        IF group_policy IS NOT NULL THEN
            of_group := _job_claim(kind, args, queue, meta, 0, NULL, NULL, group_policy);
            -- For people: the text says what the jobs of the group have in common. A long one is hashed.
            group_key := CASE WHEN octet_length(of_group.canonical) <= 128 THEN of_group.canonical ELSE of_group.unique_key END;
        END IF;
        IF group_key IS NULL THEN
            group_limit := NULL;
            in_order := NULL;
        END IF;
    END IF;
    RETURN (
        1, coalesce(id, new_job_id()), id IS NOT NULL, kind, queue, args, meta, priority, max_attempts, claim.scheduled_at,
        NULL, pending, claim.unique_key, claim.unique_states, claim.period, claim.ttl, coalesce(claim.until_start, false),
        coalesce(claim.discard_on_reentry, false), coalesce(claim.on_conflict, 'ignore'), claim.changes, group_key,
        group_limit, nullif(in_order, false), claim.canonical, nullif(expires_at, 'infinity'), expires_in
    )::new_job;
END
$$;
COMMENT ON FUNCTION _new_job IS 'Checks the arguments of insert_job, fills them in from the registered kind, and makes the job''s keys.';

CREATE TYPE inserted_job AS (
    id uuid,
    state text,
    duplicate boolean,
    replaced uuid,
    unique_key text,
    outcome text
);
COMMENT ON TYPE inserted_job IS 'The result of insert_job. The comment of insert_job describes each column.';

CREATE FUNCTION _check_insert_options(max_wait interval, on_reject text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN _refuse(CASE
        WHEN max_wait < interval '0' THEN format('invalid max_wait: must not be negative: %s', max_wait)
        WHEN (on_reject IN ('error', 'row')) IS NOT TRUE THEN
            format('invalid on_reject: must be error or row: %s', coalesce(to_json(on_reject)::text, 'null'))
    END);
COMMENT ON FUNCTION _check_insert_options IS 'Raises error 22023 if max_wait or on_reject of insert_job is invalid.';

CREATE FUNCTION _raise_busy(max_wait interval) RETURNS void
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RAISE lock_not_available USING
        MESSAGE = format(
            'another open transaction holds the unique key or locks its holder: waited %s ms',
            ceil(extract(epoch FROM max_wait) * 1000)
        ),
        HINT = 'Nothing was inserted. Try again, or allow a longer max_wait.';
END
$$;
COMMENT ON FUNCTION _raise_busy IS 'Raises error 55P03, because max_wait ran out.';

CREATE FUNCTION insert_job(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    meta jsonb DEFAULT '{}',
    priority integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    id uuid DEFAULT NULL,
    pending boolean DEFAULT false,
    max_wait interval DEFAULT NULL,
    on_reject text DEFAULT 'error',
    group_key text DEFAULT NULL,
    group_limit integer DEFAULT NULL,
    in_order boolean DEFAULT NULL,
    group_policy jsonb DEFAULT NULL,
    after uuid[] DEFAULT NULL,
    after_final uuid[] DEFAULT NULL,
    after_failed uuid[] DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    expires_in interval DEFAULT NULL
) RETURNS inserted_job
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    waits CONSTANT boolean := num_nonnulls(after[1], after_final[1], after_failed[1]) > 0;
    given new_job;
    answer insert_answer;
BEGIN
    IF max_wait IS NOT NULL OR on_reject IS DISTINCT FROM 'error' THEN
        PERFORM _check_insert_options(max_wait, on_reject);
    END IF;
    given := _new_job(
        kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy, id, waits OR pending, group_key,
        group_policy, group_limit, in_order, expires_at, expires_in
    );
    IF waits THEN
        answer := _insert_after(given, max_wait, pending, after, after_final, after_failed);
    ELSE
        answer := _insert_one(given, max_wait);
    END IF;
    IF answer.outcome = 'busy' THEN
        PERFORM _raise_busy(max_wait);
    ELSIF answer.outcome = 'rejected' AND on_reject = 'error' THEN
        RAISE unique_violation USING
            MESSAGE = format('duplicate: the unique key is held by job %s (%s)', answer.id, answer.state),
            DETAIL = format('{"holder": "%s", "state": "%s"}', answer.id, answer.state),
            HINT = 'Nothing was inserted. To go on with the transaction, pass on_reject => ''row'', or insert within a savepoint.',
            SCHEMA = current_schema(), TABLE = 'job', CONSTRAINT = 'job_unique_key';
    END IF;
    -- A job that was there before has no created_at here: its insert was sent again.
    IF answer.outcome = 'inserted' AND answer.created_at IS NOT NULL THEN
        INSERT INTO history_tally (at, inserted, completed, failed, discarded, kind, queue, waits, runs)
        VALUES (clock_timestamp(), 1, 0, 0, 0, given.kind, given.queue, '{}', '{}');
    END IF;
    RETURN (
        answer.id, answer.state, answer.outcome <> 'inserted', answer.replaced, answer.unique_key, answer.outcome
    )::inserted_job;
END
$$;
COMMENT ON FUNCTION insert_job IS 'Inserts a job in the caller''s transaction. Returns the new job, or with duplicate set the job that claims its key. An argument that is left out, or null, is taken from the kind if the kind is registered. replaced: the job that the new one replaced. outcome: inserted, duplicate, updated, covered or rejected. Error 22023 names the invalid argument. The arguments are listed in docs/reference/sql.md.';

CREATE FUNCTION _is_whole(given jsonb, lowest integer, highest integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(given)
        WHEN 'number' THEN given::numeric BETWEEN lowest AND highest AND given::numeric = trunc(given::numeric)
        ELSE given IS NULL
    END;
COMMENT ON FUNCTION _is_whole IS 'Whether a JSON value is an integer within these limits. True if the value is absent.';

CREATE FUNCTION _read_job(document jsonb, place integer) RETURNS new_job
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    members CONSTANT text[] := ARRAY[
        'after', 'after_failed', 'after_final', 'args', 'expires_at', 'expires_in', 'group_key', 'group_limit',
        'group_policy', 'id', 'in_order', 'kind', 'max_attempts', 'meta', 'pending', 'priority', 'queue', 'scheduled_at',
        'unique_policy'
    ];
    waits CONSTANT boolean := document ?| '{after, after_failed, after_final}'
        AND EXISTS (SELECT FROM _read_parents(document, place));
    given new_job;
    expires_in interval;
BEGIN
    IF jsonb_typeof(document) <> 'object' THEN
        PERFORM _refuse(format('must be an object: %s', left(document::text, 80)));
    END IF;
    PERFORM _refuse(coalesce('unknown member: ' || m.stranger, format('invalid %s: must be %s: %s', e.key, m.must, e.value)))
    FROM jsonb_each(document) AS e
    CROSS JOIN LATERAL (
        SELECT
            CASE WHEN e.key <> ALL (members) THEN to_json(e.key)::text END AS stranger,
            CASE
                WHEN e.value = 'null' THEN NULL
                WHEN e.key IN ('kind', 'queue', 'id', 'group_key', 'scheduled_at', 'expires_at', 'expires_in')
                    AND jsonb_typeof(e.value) <> 'string' THEN 'a string'
                WHEN e.key IN ('pending', 'in_order') AND jsonb_typeof(e.value) <> 'boolean' THEN 'true or false'
                WHEN e.key IN ('group_limit', 'max_attempts') AND NOT _is_whole(e.value, 1, 32767) THEN '1 to 32767'
                WHEN e.key = 'priority' AND NOT _is_whole(e.value, -32768, 32767) THEN '-32768 to 32767'
                -- Not what else a cast takes: "tomorrow", and a time that the session's zone would decide.
                WHEN e.key IN ('scheduled_at', 'expires_at') AND (e.value #>> '{}') COLLATE "C" !~
                    '^[0-9]{4,6}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)? ?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$'
                THEN 'a time with its zone, such as 2026-02-12T15:15:00Z'
            END AS must
    ) AS m
    WHERE coalesce(m.stranger, m.must) IS NOT NULL;
    IF waits AND (document ->> 'pending')::boolean THEN
        PERFORM _refuse('invalid pending: not together with after');
    ELSIF document ->> 'expires_in' IS NOT NULL THEN
        BEGIN
            expires_in := (document ->> 'expires_in')::interval;
        EXCEPTION
            WHEN data_exception THEN
                PERFORM _refuse(
                    format('invalid expires_in: must be an interval, such as 90s or PT15M: %s', document -> 'expires_in')
                );
        END;
    END IF;
    given := _new_job(
        document ->> 'kind', coalesce(document -> 'args', '{}'),
        -- null gives the default of the kind up.
        CASE WHEN document ? 'queue' THEN coalesce(document ->> 'queue', 'default') END,
        coalesce(nullif(document -> 'meta', 'null'), '{}'),
        CASE WHEN document ? 'priority' THEN coalesce(document ->> 'priority', '0')::numeric::integer END,
        CASE WHEN document ? 'max_attempts' THEN coalesce(document ->> 'max_attempts', '25')::numeric::integer END,
        (document ->> 'scheduled_at')::timestamptz, document -> 'unique_policy', (document ->> 'id')::uuid,
        waits OR (document ->> 'pending')::boolean, document ->> 'group_key', document -> 'group_policy',
        (document ->> 'group_limit')::numeric::integer,
        CASE WHEN document ? 'in_order' THEN coalesce(document ->> 'in_order', 'false')::boolean END,
        CASE
            WHEN document ->> 'expires_at' IS NOT NULL THEN (document ->> 'expires_at')::timestamptz
            WHEN document ?| '{expires_at, expires_in}' AND document ->> 'expires_in' IS NULL THEN 'infinity'
        END,
        expires_in
    );
    given.place := place;
    RETURN given;
END
$$;
COMMENT ON FUNCTION _read_job IS 'Reads one of the objects of insert_jobs strictly, and makes its keys. Error 22023 names the invalid member. Error 22P02: the id is no UUID. Another error of class 22: scheduled_at is no time.';

CREATE FUNCTION insert_jobs(jobs jsonb, max_wait interval DEFAULT NULL, on_reject text DEFAULT 'error')
RETURNS TABLE (
    index integer, id uuid, state text, duplicate boolean, replaced uuid, unique_key text, outcome text, earlier integer
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    document jsonb;
    place integer;
    batch new_job[] := '{}';
    answers insert_answer[];
    one_by_one boolean;
BEGIN
    PERFORM _check_insert_options(max_wait, on_reject);
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' THEN
        PERFORM _refuse(format('invalid jobs: must be an array of objects: %s', coalesce(left(jobs::text, 80), 'null')));
    -- A call takes several times its size in memory.
    ELSIF pg_column_size(jobs) > 67108864 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid jobs: must not exceed 64 MB: %s MB', pg_column_size(jobs) / 1048576),
            HINT = 'Insert them with several calls in one transaction.';
    END IF;
    BEGIN
        FOR document, place IN SELECT e.value, e.ordinality FROM jsonb_array_elements(jobs) WITH ORDINALITY AS e LOOP
            batch := batch || _read_job(document, place);
        END LOOP;
    EXCEPTION
        WHEN data_exception THEN
            RAISE invalid_parameter_value USING MESSAGE = format('job %s: %s', place - 1, CASE
                WHEN SQLSTATE = '22023' THEN SQLERRM
                WHEN SQLSTATE = '22P02' THEN format('invalid id: must be a UUID: %s', document -> 'id')
                ELSE (
                    SELECT format(
                        'invalid %s: must be a time with its zone, such as 2026-02-12T15:15:00Z: %s',
                        string_agg(m.name, ' or '), string_agg((document -> m.name)::text, ' and ')
                    )
                    FROM (VALUES ('scheduled_at'), ('expires_at')) AS m (name)
                    WHERE document ->> m.name IS NOT NULL
                )
            END);
    END;
    IF batch = '{}' THEN
        RETURN;
    END IF;
    batch := ARRAY(SELECT b::new_job FROM unnest(batch) AS b ORDER BY b.unique_key, b.place);
    -- What is settled one by one: ids that may be there, another on_conflict, equal keys.
    one_by_one := (
        SELECT bool_or(b.may_exist OR b.on_conflict <> 'ignore') OR count(b.unique_key) > count(DISTINCT b.unique_key)
        FROM unnest(batch) AS b
    );
    IF jobs @? '$[*] ? (exists (@.after) || exists (@.after_final) || exists (@.after_failed))' THEN
        answers := (
            SELECT ARRAY(
                SELECT a
                FROM _insert_graph(batch, one_by_one, max_wait, e.children, e.places, e.parents, e.conditions) AS a
            )
            FROM (
                SELECT
                    array_agg(p.child) AS children, array_agg(p.parent_place) AS places, array_agg(p.parent) AS parents,
                    array_agg(p.condition) AS conditions
                FROM jsonb_array_elements(jobs) WITH ORDINALITY AS d (document, place)
                CROSS JOIN LATERAL _read_parents(d.document, d.place::integer) AS p
            ) AS e
        );
    ELSE
        answers := ARRAY(SELECT a FROM _insert_batch(batch, one_by_one, false, max_wait, NULL) AS a);
    END IF;
    IF (answers[1]).outcome = 'busy' THEN
        PERFORM _raise_busy(max_wait);
    ELSIF (answers[1]).outcome = 'rejected' AND on_reject = 'error' THEN
        RAISE unique_violation USING
            MESSAGE = format(
                'duplicates: %s of %s jobs were rejected, and nothing was inserted', cardinality(answers), cardinality(batch)
            ),
            DETAIL = (
                SELECT jsonb_agg(
                    CASE
                        WHEN a.earlier IS NOT NULL THEN jsonb_build_object('index', a.place - 1, 'earlier', a.earlier - 1)
                        ELSE jsonb_build_object('index', a.place - 1, 'holder', a.id, 'state', a.state)
                    END
                    ORDER BY a.place
                )
                FROM unnest(answers) AS a
            ),
            HINT = 'To go on with the transaction, pass on_reject => ''row'', or insert within a savepoint.',
            SCHEMA = current_schema(), TABLE = 'job', CONSTRAINT = 'job_unique_key';
    END IF;
    -- An answer without a place stands for every job that no other names, here and below.
    INSERT INTO history_tally (at, inserted, completed, failed, discarded, kind, queue, waits, runs)
    SELECT clock_timestamp(), count(*), 0, 0, 0, u.kind COLLATE "C", u.queue COLLATE "C", '{}', '{}'
    FROM unnest(batch) AS u
    LEFT JOIN unnest(answers) AS a ON a.place = u.place
    WHERE (a.outcome = 'inserted' AND a.created_at IS NOT NULL)
        OR (a.outcome IS NULL AND (answers[1]).outcome IS DISTINCT FROM 'rejected')
    GROUP BY u.kind COLLATE "C", u.queue COLLATE "C";
    RETURN QUERY
    SELECT
        u.place - 1,
        CASE WHEN o.outcome <> 'not_inserted' AND a.earlier IS NULL THEN coalesce(a.id, u.id) END,
        CASE WHEN o.outcome <> 'not_inserted' AND a.earlier IS NULL THEN coalesce(a.state, 'available')::text END,
        o.outcome IN ('duplicate', 'updated', 'covered', 'rejected'), a.replaced, u.unique_key, o.outcome, a.earlier - 1
    FROM unnest(batch) AS u
    LEFT JOIN unnest(answers) AS a ON a.place = u.place
    CROSS JOIN LATERAL (
        SELECT coalesce(a.outcome, CASE WHEN (answers[1]).outcome = 'rejected' THEN 'not_inserted' ELSE 'inserted' END)
    ) AS o (outcome)
    ORDER BY u.place;
END
$$;
COMMENT ON FUNCTION insert_jobs IS 'Inserts many jobs in the caller''s transaction, all or none, as if one after another. jobs: an array of objects, of at most 64 MB, whose members are the arguments of insert_job. Times are texts with their zone. after can name indexes of earlier jobs. Returns one row for each job, in their order. index counts from 0. Error 22023 names the job by its index. See docs/reference/sql.md.';
