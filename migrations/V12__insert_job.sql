-- Inserting for people: the same with a job's policies as JSON.

CREATE FUNCTION _job_group_of(
    kind text,
    args jsonb,
    queue text,
    meta jsonb,
    priority integer,
    max_attempts integer,
    scheduled_at timestamptz,
    group_key text,
    group_policy jsonb,
    group_limit integer,
    in_order boolean
) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    problem text;
BEGIN
    problem := CASE
        WHEN group_key IS NOT NULL AND group_policy IS NOT NULL THEN 'invalid group_policy: not together with group_key'
        WHEN group_key IS NULL AND group_policy IS NULL AND group_limit IS NOT NULL THEN
            'invalid group_limit: needs a group_key or a group_policy'
        WHEN group_key IS NULL AND group_policy IS NULL AND in_order THEN
            'invalid in_order: needs a group_key or a group_policy'
        WHEN octet_length(group_key) NOT BETWEEN 1 AND 512 THEN
            format('invalid group_key: must be 1 to 512 bytes: %s', octet_length(group_key))
        WHEN group_limit NOT BETWEEN 1 AND 32767 THEN
            format('invalid group_limit: must be 1 to 32767: %s', group_limit)
        WHEN in_order AND group_limit > 1 THEN
            format('invalid group_limit: must be 1 for a job that is in_order: %s', group_limit)
        WHEN group_policy ? 'window' THEN 'invalid group_policy: window: a group has none'
    END;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = problem;
    END IF;
    IF group_policy IS NOT NULL THEN
        -- For people: the text says what the jobs of the group have in common. A long one is hashed.
        SELECT CASE WHEN octet_length(c.canonical) <= 128 THEN c.canonical ELSE c.unique_key END INTO group_key
        FROM _job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, group_policy) AS c;
    END IF;
    RETURN CASE
        WHEN group_key IS NOT NULL THEN
            jsonb_build_object('key', group_key, 'limit', group_limit, 'in_order', nullif(in_order, false))
    END;
END
$$;
COMMENT ON FUNCTION _job_group_of(
    text, jsonb, text, jsonb, integer, integer, timestamptz, text, jsonb, integer, boolean
) IS
    'The group of a job, as _insert_batch takes it, from the arguments of insert_job; null: none. Error 22023 naming the argument at fault.';

CREATE FUNCTION _enter_job(
    kind text,
    args jsonb,
    queue text,
    meta jsonb,
    priority integer,
    max_attempts integer,
    scheduled_at timestamptz,
    unique_policy jsonb,
    id uuid,
    pending boolean,
    max_wait interval,
    on_reject text,
    group_key text,
    group_limit integer,
    in_order boolean,
    group_policy jsonb,
    OUT outcome text,
    OUT replaced uuid,
    OUT job_id uuid,
    OUT job_state job_state,
    OUT job_key text
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    claim record;
    job_group jsonb;
    answer record;
    answered job;
BEGIN
    IF max_wait IS NOT NULL OR on_reject IS DISTINCT FROM 'error' THEN
        PERFORM _check_insert_options(max_wait, on_reject);
    END IF;
    claim := _job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy);
    IF group_key IS NOT NULL OR group_policy IS NOT NULL OR group_limit IS NOT NULL OR in_order THEN
        job_group := _job_group_of(
            kind, args, queue, meta, priority, max_attempts, scheduled_at, group_key, group_policy, group_limit, in_order
        );
    END IF;
    answer := _insert_one(
        (
            1, coalesce(id, new_job_id()), id IS NOT NULL, kind, queue, args, meta, coalesce(priority, 0),
            coalesce(max_attempts, 25), scheduled_at, NULL, pending, claim.unique_key, claim.unique_states, claim.period,
            claim.ttl, coalesce(claim.until_start, false), coalesce(claim.discard_on_reentry, false),
            coalesce(claim.on_conflict, 'ignore'), job_group ->> 'key', (job_group ->> 'limit')::smallint,
            (job_group ->> 'in_order')::boolean
        )::new_job,
        max_wait
    );
    outcome := answer.outcome;
    replaced := answer.replaced;
    answered := answer.answered;
    job_id := answered.id;
    job_state := answered.state;
    job_key := answered.unique_key;
    IF outcome = 'busy' THEN
        PERFORM _raise_busy(max_wait);
    ELSIF outcome = 'rejected' AND on_reject = 'error' THEN
        RAISE unique_violation USING
            MESSAGE = format('duplicate: the unique key is held by job %s (%s)', job_id, job_state),
            DETAIL = format('{"holder": "%s", "state": "%s"}', job_id, job_state),
            HINT = 'Nothing was inserted. To go on with the transaction, pass on_reject => ''row'', or insert within a savepoint.',
            SCHEMA = current_schema(),
            TABLE = 'job',
            CONSTRAINT = 'job_unique_key';
    END IF;
END
$$;
COMMENT ON FUNCTION _enter_job(
    text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid, boolean, interval, text, text, integer,
    boolean, jsonb
) IS
    'What insert_job does, in PL/pgSQL, where an argument and a column of the answer cannot both be named id.';

CREATE FUNCTION insert_job(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT 'default',
    meta jsonb DEFAULT '{}',
    priority integer DEFAULT 0,
    max_attempts integer DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    id uuid DEFAULT NULL,
    pending boolean DEFAULT false,
    max_wait interval DEFAULT NULL,
    on_reject text DEFAULT 'error',
    group_key text DEFAULT NULL,
    group_limit integer DEFAULT NULL,
    in_order boolean DEFAULT false,
    group_policy jsonb DEFAULT NULL
) RETURNS TABLE (id uuid, state text, duplicate boolean, replaced uuid, unique_key text, outcome text)
    LANGUAGE sql VOLATILE
    ROWS 1
BEGIN ATOMIC
    SELECT
        e.job_id, e.job_state::text, e.outcome IN ('duplicate', 'updated', 'covered', 'rejected'), e.replaced, e.job_key,
        e.outcome
    FROM _enter_job(
        insert_job.kind, insert_job.args, insert_job.queue, insert_job.meta, insert_job.priority,
        insert_job.max_attempts, insert_job.scheduled_at, insert_job.unique_policy, insert_job.id,
        coalesce(insert_job.pending, false), insert_job.max_wait, insert_job.on_reject, insert_job.group_key,
        insert_job.group_limit, coalesce(insert_job.in_order, false), insert_job.group_policy
    ) AS e;
END;
COMMENT ON FUNCTION insert_job(
    text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid, boolean, interval, text, text, integer,
    boolean, jsonb
) IS
    'Inserts a job in the caller''s transaction. Answers with the new job; or, with duplicate set, with the job that claims the key, which stays as it is and unlocked.
kind, args, queue, meta: as unique_key. priority: higher runs first, -32768 to 32767, default 0. max_attempts: 1 to 32767, default 25. scheduled_at: when it may run, at the earliest; default now. unique_policy: as unique_key; default null: not unique. id: default a new UUIDv7; an id that is there already is answered with its job where that has the same kind, queue and args (those of a job that was updated do not count), else error 23505 on job_pkey, which names both. pending: true holds the job back until release_jobs; default false.
max_wait: how long to wait for each other open transaction that inserts the key, or that locks the job whose claim on it has expired; error 55P03 after that. Default null: as long as lock_timeout allows, which is for ever unless it is set.
replaced: the job that this one took the place of.
outcome: inserted; duplicate (on_conflict ignore); updated (on_conflict update: the row is the holder, which was changed); covered (on_conflict run_again: the row is the holder, which starts after the transaction has committed); rejected (on_conflict reject, replace on a running holder, update and run_again on one that runs or is final: the row is the holder).
on_reject: error (default): rejected is error 23505 on constraint job_unique_key instead, with {"holder": id, "state": state} as DETAIL, which aborts the transaction, unless the insert stands within a savepoint. row: rejected is a row.
group_key: the group that the job belongs to within its queue, 1 to 512 bytes; default null: none. group_policy: a policy, as unique_policy, that makes the group''s key from the job, instead of group_key: the canonical text of the fingerprint, such as {"args":{"customer":42}}, or its SHA-256 where that text is longer than 128 bytes. group_limit: the job starts only while fewer jobs of its group run than this, 1 to 32767; default null: no limit of its own. in_order: true runs the jobs of the group one at a time in their order, and none overtakes one that began; default false.
Errors 22023, naming the argument or the policy''s member: a value outside its limits.';

CREATE FUNCTION _check_insert_options(max_wait interval, on_reject text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    IF max_wait < interval '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid max_wait: must not be negative: %s', max_wait);
    ELSIF on_reject IS NULL OR on_reject NOT IN ('error', 'row') THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid on_reject: must be error or row: %s', coalesce(to_json(on_reject)::text, 'null'));
    END IF;
END
$$;
COMMENT ON FUNCTION _check_insert_options(interval, text) IS
    'Error 22023 for what cannot be insert_job''s max_wait and on_reject.';

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
COMMENT ON FUNCTION _raise_busy(interval) IS 'Error 55P03: max_wait ran out.';

CREATE FUNCTION _is_whole(given jsonb, lowest integer, highest integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(given)
        WHEN 'number' THEN given::numeric BETWEEN lowest AND highest AND given::numeric = trunc(given::numeric)
        ELSE given IS NULL
    END;
COMMENT ON FUNCTION _is_whole(jsonb, integer, integer) IS
    'Whether JSON is an integer within these limits; also where it is absent.';

CREATE FUNCTION _read_job(
    document jsonb,
    OUT id uuid,
    OUT has_given_id boolean,
    OUT kind text,
    OUT queue text,
    OUT args jsonb,
    OUT meta jsonb,
    OUT priority smallint,
    OUT max_attempts smallint,
    OUT scheduled_at timestamptz,
    OUT pending boolean,
    OUT unique_key text,
    OUT unique_states smallint,
    OUT period interval,
    OUT ttl interval,
    OUT until_start boolean,
    OUT discard_on_reentry boolean,
    OUT on_conflict text,
    OUT job_group jsonb
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    members CONSTANT text[] := ARRAY[
        'args', 'group_key', 'group_limit', 'group_policy', 'id', 'in_order', 'kind', 'max_attempts', 'meta', 'pending',
        'priority', 'queue', 'scheduled_at', 'unique_policy'
    ];
    problem text;
    claim record;
BEGIN
    -- null is as good as absent, but in the args, where it is a value.
    problem := CASE
        WHEN jsonb_typeof(document) <> 'object' THEN format('must be an object: %s', left(document::text, 80))
        WHEN document - members <> '{}' THEN
            format('unknown member: %s', (SELECT to_json(m.name) FROM jsonb_object_keys(document - members) AS m (name) LIMIT 1))
        WHEN jsonb_typeof(document -> 'kind') NOT IN ('null', 'string') THEN
            format('invalid kind: must be a string: %s', document -> 'kind')
        WHEN jsonb_typeof(document -> 'queue') NOT IN ('null', 'string') THEN
            format('invalid queue: must be a string: %s', document -> 'queue')
        WHEN jsonb_typeof(document -> 'id') NOT IN ('null', 'string') THEN
            format('invalid id: must be a string: %s', document -> 'id')
        WHEN jsonb_typeof(document -> 'scheduled_at') NOT IN ('null', 'string') THEN
            format('invalid scheduled_at: must be a string: %s', document -> 'scheduled_at')
        -- Not what else a cast takes: "tomorrow", and a time that the session's zone would decide.
        WHEN (document ->> 'scheduled_at') COLLATE "C" !~
            '^[0-9]{4,6}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)? ?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$'
        THEN
            format('invalid scheduled_at: must be a time with its zone, such as 2026-02-12T15:15:00Z: %s', document -> 'scheduled_at')
        WHEN jsonb_typeof(document -> 'pending') NOT IN ('null', 'boolean') THEN
            format('invalid pending: must be true or false: %s', document -> 'pending')
        WHEN jsonb_typeof(document -> 'group_key') NOT IN ('null', 'string') THEN
            format('invalid group_key: must be a string: %s', document -> 'group_key')
        WHEN jsonb_typeof(document -> 'in_order') NOT IN ('null', 'boolean') THEN
            format('invalid in_order: must be true or false: %s', document -> 'in_order')
        WHEN jsonb_typeof(document -> 'group_limit') <> 'null' AND NOT _is_whole(document -> 'group_limit', 1, 32767) THEN
            format('invalid group_limit: must be 1 to 32767: %s', document -> 'group_limit')
        WHEN jsonb_typeof(document -> 'priority') <> 'null' AND NOT _is_whole(document -> 'priority', -32768, 32767) THEN
            format('invalid priority: must be -32768 to 32767: %s', document -> 'priority')
        WHEN jsonb_typeof(document -> 'max_attempts') <> 'null' AND NOT _is_whole(document -> 'max_attempts', 1, 32767) THEN
            format('invalid max_attempts: must be 1 to 32767: %s', document -> 'max_attempts')
    END;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = problem;
    END IF;
    kind := document ->> 'kind';
    queue := coalesce(document ->> 'queue', 'default');
    args := coalesce(document -> 'args', '{}');
    meta := coalesce(nullif(document -> 'meta', 'null'), '{}');
    priority := coalesce(document ->> 'priority', '0')::numeric;
    max_attempts := coalesce(document ->> 'max_attempts', '25')::numeric;
    pending := coalesce(document ->> 'pending', 'false')::boolean;
    scheduled_at := document ->> 'scheduled_at';
    has_given_id := document ->> 'id' IS NOT NULL;
    id := coalesce((document ->> 'id')::uuid, new_job_id());

    SELECT c.* INTO claim
    FROM _job_claim(
        kind, args, queue, meta, priority, max_attempts, scheduled_at, nullif(document -> 'unique_policy', 'null')
    ) AS c;
    unique_key := claim.unique_key;
    unique_states := claim.unique_states;
    period := claim.period;
    ttl := claim.ttl;
    until_start := coalesce(claim.until_start, false);
    discard_on_reentry := coalesce(claim.discard_on_reentry, false);
    on_conflict := coalesce(claim.on_conflict, 'ignore');
    IF document ?| '{group_key, group_limit, group_policy, in_order}' THEN
        job_group := _job_group_of(
            kind, args, queue, meta, priority, max_attempts, scheduled_at, document ->> 'group_key',
            nullif(document -> 'group_policy', 'null'), (document ->> 'group_limit')::numeric::integer,
            (document ->> 'in_order')::boolean
        );
    END IF;
END
$$;
COMMENT ON FUNCTION _read_job(jsonb) IS
    'Reads one of the objects of insert_jobs strictly, and makes its claim. Error 22023 naming the member at fault; 22P02 for an id that is no UUID, another of class 22 for a scheduled_at that is no time.';

CREATE FUNCTION insert_jobs(jobs jsonb, max_wait interval DEFAULT NULL, on_reject text DEFAULT 'error')
RETURNS TABLE (
    index integer, id uuid, state text, duplicate boolean, replaced uuid, unique_key text, outcome text, earlier integer
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    batch record;
    answer record;
    given record;
BEGIN
    PERFORM _check_insert_options(max_wait, on_reject);
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid jobs: must be an array of objects: %s', coalesce(left(jobs::text, 80), 'null'));
    END IF;
    BEGIN
        -- In the order of the subquery. An aggregate with an order of its own, or DISTINCT, would change that order for all
        -- of them, from PostgreSQL 16 on.
        SELECT
            array_agg(j.id) AS ids, array_agg(j.kind) AS kinds, array_agg(j.queue) AS queues, array_agg(j.args) AS args,
            array_agg(j.meta) AS metas, array_agg(j.priority) AS priorities, array_agg(j.max_attempts) AS max_attempts,
            CASE WHEN count(j.scheduled_at) > 0 THEN array_agg(j.scheduled_at) ELSE '{}' END AS scheduled_ats,
            CASE WHEN bool_or(j.pending) THEN array_agg(j.pending) ELSE '{}' END AS pendings,
            array_agg(j.unique_key) AS unique_keys, array_agg(j.unique_states) AS unique_states,
            CASE WHEN count(j.period) > 0 THEN array_agg(j.period) ELSE '{}' END AS periods,
            CASE WHEN count(j.ttl) > 0 THEN array_agg(j.ttl) ELSE '{}' END AS ttls,
            array_agg(j.until_start) AS until_starts, array_agg(j.discard_on_reentry) AS discards_on_reentry,
            array_agg(j.on_conflict) AS on_conflicts,
            CASE WHEN count(j.job_group) > 0 THEN jsonb_agg(j.job_group) END AS groups,
            bool_or(j.has_given_id OR j.on_conflict <> 'ignore') AS in_order
        INTO batch
        FROM (
            SELECT r.*
            FROM jsonb_array_elements(jobs) WITH ORDINALITY AS e (document, place)
            CROSS JOIN LATERAL _read_job(e.document) AS r
            ORDER BY e.place
        ) AS j;
    EXCEPTION
        WHEN data_exception THEN
            -- The first job that cannot be read. One block for all jobs costs less than one for each.
            FOR given IN SELECT e.* FROM jsonb_array_elements(jobs) WITH ORDINALITY AS e (document, place) LOOP
                BEGIN
                    PERFORM _read_job(given.document);
                EXCEPTION
                    WHEN data_exception THEN
                        RAISE invalid_parameter_value USING MESSAGE = format('job %s: %s', given.place - 1, CASE
                            WHEN SQLSTATE = '22023' THEN SQLERRM
                            WHEN SQLSTATE = '22P02' THEN format('invalid id: must be a UUID: %s', given.document -> 'id')
                            ELSE format('invalid scheduled_at: must be a time with its zone, such as 2026-02-12T15:15:00Z: %s', given.document -> 'scheduled_at')
                        END);
                END;
            END LOOP;
            RAISE;
    END;
    IF batch.ids IS NULL THEN
        RETURN;
    END IF;
    -- What _insert_batch does key by key: ids that may be there, another on_conflict, equal keys.
    batch.in_order := batch.in_order
        OR (SELECT count(k.key) > count(DISTINCT k.key COLLATE "C") FROM unnest(batch.unique_keys) AS k (key));

    SELECT
        array_agg(b.place) AS places, array_agg(b.outcome) AS outcomes, array_agg(b.replaced) AS replaced,
        array_agg(b.job_id) AS ids, array_agg(coalesce(b.state, (b.job).state)) AS states
    INTO answer
    FROM _insert_batch(
        batch.ids, batch.kinds, batch.queues, batch.args, batch.metas, batch.priorities, batch.max_attempts,
        batch.scheduled_ats, '{}', batch.pendings, batch.unique_keys, batch.unique_states, batch.periods, batch.ttls,
        batch.until_starts, batch.discards_on_reentry, batch.on_conflicts, batch.in_order, max_wait,
        groups => batch.groups
    ) AS b;
    IF 'busy' = ANY (answer.outcomes) THEN
        PERFORM _raise_busy(max_wait);
    ELSIF 'rejected' = ANY (answer.outcomes) AND on_reject = 'error' THEN
        RAISE unique_violation USING
            MESSAGE = format(
                'duplicates: %s of %s jobs were rejected, and nothing was inserted',
                cardinality(answer.outcomes), cardinality(batch.ids)
            ),
            DETAIL = (
                SELECT jsonb_agg(
                    CASE
                        WHEN e.place IS NOT NULL THEN jsonb_build_object('index', a.place - 1, 'earlier', e.place - 1)
                        ELSE jsonb_build_object('index', a.place - 1, 'holder', a.id, 'state', a.state)
                    END
                    ORDER BY a.place
                )
                FROM unnest(answer.places, answer.ids, answer.states) AS a (place, id, state)
                LEFT JOIN (
                    SELECT i.id, min(i.place) AS place FROM unnest(batch.ids) WITH ORDINALITY AS i (id, place) GROUP BY i.id
                ) AS e ON e.id = a.id AND e.place < a.place
            ),
            HINT = 'To go on with the transaction, pass on_reject => ''row'', or insert within a savepoint.',
            SCHEMA = current_schema(),
            TABLE = 'job',
            CONSTRAINT = 'job_unique_key';
    END IF;

    -- An answer without a place stands for every job that no other names.
    RETURN QUERY
    SELECT
        (u.place - 1)::integer,
        CASE WHEN o.outcome = 'inserted' THEN u.id WHEN e.place IS NULL THEN a.id END,
        CASE WHEN o.outcome <> 'not_inserted' AND e.place IS NULL THEN coalesce(a.state, 'available')::text END,
        o.outcome IN ('duplicate', 'updated', 'covered', 'rejected'), a.replaced, u.unique_key, o.outcome,
        (e.place - 1)::integer
    FROM unnest(batch.ids, batch.unique_keys) WITH ORDINALITY AS u (id, unique_key, place)
    LEFT JOIN unnest(answer.places, answer.outcomes, answer.replaced, answer.ids, answer.states)
        AS a (place, outcome, replaced, id, state) ON a.place = u.place
    LEFT JOIN (SELECT i.id, min(i.place) AS place FROM unnest(batch.ids) WITH ORDINALITY AS i (id, place) GROUP BY i.id) AS e
        ON e.id = a.id AND e.place < u.place AND a.outcome = 'rejected'
    CROSS JOIN LATERAL (
        SELECT coalesce(a.outcome, CASE WHEN 'rejected' = ANY (answer.outcomes) THEN 'not_inserted' ELSE 'inserted' END)
    ) AS o (outcome)
    ORDER BY u.place;
END
$$;
COMMENT ON FUNCTION insert_jobs(jsonb, interval, text) IS
    'Inserts many jobs in the caller''s transaction, all or nothing: any mix of kinds, queues and policies. It means what inserting them one after another would mean. Keys are taken in one fixed order, so two batches never deadlock. Answers with a row for each job, in their order.
jobs: an array of objects, whose members are named and meant as the arguments of insert_job: kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy, id, pending, group_key, group_policy, group_limit, in_order. scheduled_at is a text such as 2026-02-12T15:15:00Z, with its zone. An unknown member is an error. max_wait, on_reject: as insert_job.
index: the place in jobs, counted from 0. id, state, duplicate, replaced, unique_key, outcome: as insert_job. A duplicate whose holder a later job of the batch replaces names that job. Where one job is rejected nothing is inserted, and the outcome of the others is not_inserted. earlier: the index of the job in the batch that a rejected one met; that one was not inserted either, so id and state are null.
With on_reject error the DETAIL of error 23505 is [{"index", "holder", "state"}], with {"index", "earlier"} where the holder is a job of the batch. Errors 22023 name the job by its index: job 3: invalid kind: ….';
