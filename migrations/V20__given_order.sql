-- Jobs keep the order and the time that they were given. Runs with search_path set to the schema.
--
-- insert_jobs: the jobs of a batch whose keys are taken one by one are due at one instant, so that they are worked in
-- the order of the batch and not in that of their keys; and replace_except_schedule keeps the time of a holder whose
-- time has come.
CREATE OR REPLACE FUNCTION insert_jobs(
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
                    -- A holder that was to run as soon as it was there has no schedule to keep, nor one that has
                    -- started. One whose time has come has, though it is available now; and so has one that an
                    -- operator gave a time, or let go.
                    IF turn.on_conflict = 'replace_except_schedule' AND (
                        holder.state = 'scheduled' OR (
                            holder.state IN ('available', 'pending')
                            AND holder.attempt = 0
                            AND holder.scheduled_at > holder.created_at
                        )
                    ) THEN
                        turn.scheduled_at := holder.scheduled_at;
                    END IF;
                END IF;

                arrived := clock_timestamp();
                -- For the jobs of a batch time begins at one instant, so that they are worked in the order in which they
                -- were given, not in that of their keys.
                due := coalesce(
                    turn.scheduled_at, CASE WHEN size = 1 THEN arrived ELSE instant END + coalesce(turn.delay, interval '0')
                );
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

-- A job that was held back for days has not waited for a runner for days.
CREATE OR REPLACE FUNCTION release_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT
            j.id,
            CASE WHEN j.scheduled_at > clock_timestamp() THEN 'scheduled' ELSE 'available' END::job_state AS state
        FROM job AS j
        WHERE j.id = ANY (release_jobs.ids)
            AND (release_jobs.states IS NULL OR j.state = ANY (release_jobs.states::job_state[]))
            AND j.state = 'pending'
        ORDER BY j.id
        FOR UPDATE
    ),
    changed AS (
        UPDATE job AS j
        SET state = w.state,
            -- It waits for a runner from now on, not since it was inserted.
            scheduled_at = greatest(j.scheduled_at, clock_timestamp()),
            unique_yielded = j.unique_yielded OR enters_claim(j.unique_states, j.state, w.state)
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, j.state, j.ready, j.unique_yielded
    ),
    settled AS MATERIALIZED (
        SELECT
            take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) AS discarded,
            wake_runners(array_agg(DISTINCT c.queue) FILTER (WHERE c.ready)) AS woken
        FROM changed AS c
    )
    SELECT
        c.id, c.kind, c.queue, c.attempt,
        CASE WHEN c.id = ANY (s.discarded) THEN 'discarded' ELSE c.state::text END
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION release_jobs(uuid[], text[]) IS
    'Lets pending jobs go, of those with these ids: available and due now, or scheduled where their time has not come. states: only those in one of them. Wakes runners. Answers with a row a job, and the state that it is in since.';

-- Nor has one that was inserted with a time that had passed.
CREATE OR REPLACE FUNCTION queues(count_to integer DEFAULT 10000, look_at integer DEFAULT 20000)
RETURNS TABLE (
    name text, paused_at timestamptz, max_running integer, runners bigint,
    available bigint, running bigint, scheduled bigint, retryable bigint,
    discarded bigint, pending bigint, completed bigint, cancelled bigint,
    waiting_are_all boolean, discarded_are_all boolean, last_are_all boolean,
    oldest_available_age interval
)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    -- Every part stops at a limit, which only a walk along an index in its order can do. To compile
    -- the whole would take ten times as long as to run it.
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
-- Available and running jobs are counted queue by queue, by index. Of the others, the first waiting
-- ones, the last discarded ones and the last of all are looked at.
WITH RECURSIVE available AS (
    -- From one queue to the next, without what lies between.
    (SELECT j.queue FROM job AS j WHERE j.ready ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
    FROM available AS a
    CROSS JOIN LATERAL (
        SELECT j.queue FROM job AS j WHERE j.ready AND j.queue > a.queue ORDER BY j.queue LIMIT 1
    ) AS n
),
running AS (
    (SELECT j.queue FROM job AS j WHERE j.state = 'running' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
    FROM running AS r
    CROSS JOIN LATERAL (
        SELECT j.queue
        FROM job AS j
        WHERE j.state = 'running' AND j.queue > r.queue
        ORDER BY j.queue
        LIMIT 1
    ) AS n
),
waiting_jobs AS MATERIALIZED (
    SELECT j.queue, j.state FROM job AS j WHERE j.waiting ORDER BY j.scheduled_at LIMIT look_at
),
discarded_jobs AS MATERIALIZED (
    SELECT j.queue FROM job AS j WHERE j.state = 'discarded' ORDER BY j.id DESC LIMIT look_at
),
last_jobs AS MATERIALIZED (
    SELECT j.queue, j.state FROM job AS j ORDER BY j.id DESC LIMIT look_at
),
waiting AS (
    SELECT
        w.queue,
        count(*) FILTER (WHERE w.state = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE w.state = 'retryable') AS retryable
    FROM waiting_jobs AS w
    GROUP BY w.queue
),
discarded AS (
    SELECT d.queue, count(*) AS discarded FROM discarded_jobs AS d GROUP BY d.queue
),
last AS (
    SELECT
        l.queue,
        count(*) FILTER (WHERE l.state = 'pending') AS pending,
        count(*) FILTER (WHERE l.state = 'completed') AS completed,
        count(*) FILTER (WHERE l.state = 'cancelled') AS cancelled
    FROM last_jobs AS l
    GROUP BY l.queue
),
worked AS (
    SELECT u.queue, count(*) AS runners
    FROM runner AS r
    CROSS JOIN LATERAL unnest(r.queues) AS u (queue)
    WHERE r.leased_until > clock_timestamp()
    GROUP BY u.queue
),
named AS (
    SELECT q.name FROM queue AS q
    UNION SELECT w.queue FROM worked AS w
    UNION SELECT a.queue FROM available AS a
    UNION SELECT r.queue FROM running AS r
    UNION SELECT w.queue FROM waiting AS w
    UNION SELECT d.queue FROM discarded AS d
    UNION SELECT l.queue FROM last AS l
)
SELECT
    n.name, q.paused_at, q.max_running, coalesce(w.runners, 0) AS runners,
    a.available, r.running,
    coalesce(t.scheduled, 0) AS scheduled, coalesce(t.retryable, 0) AS retryable,
    coalesce(d.discarded, 0) AS discarded,
    coalesce(l.pending, 0) AS pending, coalesce(l.completed, 0) AS completed, coalesce(l.cancelled, 0) AS cancelled,
    (SELECT count(*) < look_at FROM waiting_jobs) AS waiting_are_all,
    (SELECT count(*) < look_at FROM discarded_jobs) AS discarded_are_all,
    (SELECT count(*) < look_at FROM last_jobs) AS last_are_all,
    -- greatest alone would make nothing of null.
    CASE WHEN o.oldest IS NOT NULL THEN greatest(clock_timestamp() - o.oldest, interval '0') END
FROM named AS n
LEFT JOIN queue AS q ON q.name = n.name
LEFT JOIN worked AS w ON w.queue = n.name
LEFT JOIN waiting AS t ON t.queue = n.name
LEFT JOIN discarded AS d ON d.queue = n.name
LEFT JOIN last AS l ON l.queue = n.name
CROSS JOIN LATERAL (
    SELECT count(*) AS available
    FROM (
        -- In the index's order, so that it is walked to the limit and not read whole.
        SELECT
        FROM job AS j
        WHERE j.queue = n.name AND j.ready
        ORDER BY j.priority DESC, j.scheduled_at
        LIMIT count_to + 1
    ) AS c
) AS a
CROSS JOIN LATERAL (
    SELECT count(*) AS running
    FROM (SELECT FROM job AS j WHERE j.queue = n.name AND j.state = 'running' LIMIT count_to + 1) AS c
) AS r
CROSS JOIN LATERAL (
    -- The first ones of each priority: those that have waited longest are among them, but where many were inserted
    -- with a time that had passed.
    WITH RECURSIVE first AS (
        (
            SELECT j.priority
            FROM job AS j
            WHERE j.queue = n.name AND j.ready
            ORDER BY j.priority DESC, j.scheduled_at
            LIMIT 1
        )
        UNION ALL
        SELECT b.priority
        FROM first AS f
        CROSS JOIN LATERAL (
            SELECT j.priority
            FROM job AS j
            WHERE j.queue = n.name AND j.ready AND j.priority < f.priority
            ORDER BY j.priority DESC, j.scheduled_at
            LIMIT 1
        ) AS b
    )
    SELECT min(s.since) FILTER (WHERE isfinite(s.since)) AS oldest
    FROM (
        SELECT greatest(j.scheduled_at, j.created_at) AS since
        FROM (SELECT f.priority FROM first AS f LIMIT 1000) AS f
        CROSS JOIN LATERAL (
            SELECT j.scheduled_at, j.created_at
            FROM job AS j
            WHERE j.queue = n.name AND j.ready AND j.priority = f.priority
            ORDER BY j.priority DESC, j.scheduled_at
            LIMIT 10
        ) AS j
    ) AS s
) AS o
ORDER BY n.name
$$;
COMMENT ON FUNCTION queues(integer, integer) IS
    'Every queue that has settings, a live runner or jobs, with its jobs by state; cheap however many jobs there are. available and running stop at count_to + 1. The others are counted among the look_at first waiting jobs (scheduled, retryable), the look_at last discarded jobs, and the look_at last jobs of all (pending, completed, cancelled); *_are_all says whether that was all there are. A queue is missing where all it has are older jobs of the last sort. oldest_available_age: how long the oldest available job could have run already, of the first ten of each priority.';

-- The rest as it was, whole: from here `doctor` takes the text of an object that somebody changed.
CREATE OR REPLACE FUNCTION take_claims(ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '10ms'
    -- A session plans what a function asks after five calls for good, for the table as it is then: on a small one a scan.
    SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
    SET jit = off
AS $$
-- A job that comes back to its unique states has yielded its claim in the same statement. Here it
-- takes the claim back if the key is free. Every contest is in a block of its own and lost within
-- 10 ms, within 1 ms once a batch has lost 100 ms, and after 300 ms the rest of the batch goes on
-- without its claims: contested keys never stop a batch, a promotion or a queue. The caller's rows
-- stay locked meanwhile, so an insert that waits for one of them and holds a contested key is in a
-- deadlock with this; it must be over before deadlock_timeout (1 s) makes that insert its victim.
--
-- The holder is sought by the key as a value and never by a join: a plan that was made, and kept,
-- while next to no key was claimed may join by reading every claim there is.
DECLARE
    comer record;
    patience text := current_setting('lock_timeout');
    discarded uuid[] := '{}';
    is_taken boolean;
    began timestamptz;
    lost interval := '0';
BEGIN
    FOR comer IN
        SELECT j.id, j.unique_key, j.discard_on_reentry
        FROM job AS j
        WHERE j.id = ANY (ids)
            AND j.unique_yielded
            AND j.unique_states & state_bit(j.state) <> 0
            AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
        ORDER BY j.unique_key, j.id
    LOOP
        is_taken := false;
        IF lost <= interval '300 ms' THEN
            began := clock_timestamp();
            BEGIN
                UPDATE job AS expired
                SET unique_states = 0
                WHERE expired.unique_key = comer.unique_key
                    AND expired.claims
                    AND expired.unique_until <= clock_timestamp();
                UPDATE job AS j
                SET unique_yielded = false
                WHERE j.id = comer.id
                    AND j.unique_yielded
                    AND j.unique_states & state_bit(j.state) <> 0
                    AND NOT EXISTS (
                        SELECT FROM job AS holder
                        WHERE holder.unique_key = comer.unique_key AND holder.claims
                    );
                is_taken := FOUND;
            EXCEPTION
                WHEN unique_violation OR lock_not_available OR deadlock_detected OR serialization_failure THEN
                    lost := lost + (clock_timestamp() - began);
                    IF lost > interval '100 ms' THEN
                        patience := '1ms';
                        PERFORM set_config('lock_timeout', patience, true);
                    END IF;
            END;
        END IF;
        IF NOT is_taken AND comer.discard_on_reentry THEN
            -- The row is the caller's own, so nobody's lock can hold this up; but lock_timeout also
            -- counts the wait for the table's next page, and this must not fail.
            PERFORM set_config('lock_timeout', '0', true);
            -- Only a holder that is there can cost a job its life: a contest lost to a transaction
            -- that is still open may have been lost to nobody.
            UPDATE job AS j
            SET state = 'discarded',
                finalized_at = clock_timestamp(),
                errors = j.errors || jsonb_build_object(
                    'attempt', j.attempt,
                    'at', clock_timestamp(),
                    'error', 'discarded on re-entry: another job holds the unique key'
                )
            WHERE j.id = comer.id
                AND j.unique_states & state_bit(j.state) <> 0
                AND j.state NOT IN ('completed', 'cancelled', 'discarded')
                AND EXISTS (
                    SELECT FROM job AS holder
                    WHERE holder.unique_key = comer.unique_key
                        AND holder.claims
                        AND holder.id <> comer.id
                        AND (holder.unique_until IS NULL OR holder.unique_until > clock_timestamp())
                );
            IF FOUND THEN
                discarded := discarded || comer.id;
            END IF;
            PERFORM set_config('lock_timeout', patience, true);
        END IF;
    END LOOP;
    RETURN discarded;
END
$$;
COMMENT ON FUNCTION take_claims(uuid[]) IS
    'Gives jobs that yielded their claim on re-entry their claim back where the key is free. The others go on without, or are discarded where their policy says so. Returns the ids of those it discarded.';

CREATE OR REPLACE FUNCTION stuck_jobs(
    running_longer_than interval DEFAULT '1 hour',
    waiting_longer_than interval DEFAULT '1 minute',
    look_at integer DEFAULT 1000
)
RETURNS TABLE (
    id uuid, kind text, queue text, state text, attempt smallint, runner uuid,
    since timestamptz, stuck_for interval, reason text, remedy text
)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
WITH RECURSIVE live_runner AS MATERIALIZED (
    SELECT r.id, r.queues, r.started_at FROM runner AS r WHERE r.leased_until > statement_timestamp()
),
running AS (
    SELECT
        j.id, j.kind, j.queue, 'running' AS state, j.attempt, j.worker,
        CASE WHEN l.is_lost THEN coalesce(r.leased_until, j.attempted_at) ELSE j.attempted_at END AS since,
        CASE WHEN l.is_lost THEN 'its runner died' ELSE 'runs long' END AS reason,
        CASE
            WHEN l.is_lost THEN 'Start a runner: it takes the jobs of dead ones back within seconds.'
            ELSE format('Wait, or: SELECT * FROM %I.cancel_jobs(ARRAY[%L::uuid]);', current_schema(), j.id)
        END AS remedy
    FROM job AS j
    LEFT JOIN runner AS r ON r.id = j.worker
    -- The rescuer comes within ten seconds.
    CROSS JOIN LATERAL (
        SELECT coalesce(r.leased_until < statement_timestamp() - interval '15 s', r.id IS NULL) AS is_lost
    ) AS l
    WHERE j.state = 'running'
        AND (l.is_lost OR j.attempted_at < statement_timestamp() - running_longer_than)
    LIMIT look_at
),
waiting AS (
    SELECT
        j.id, j.kind, j.queue, j.state::text, j.attempt, NULL::uuid, j.scheduled_at,
        'is due and not promoted',
        CASE
            WHEN NOT EXISTS (SELECT FROM live_runner) THEN 'Start a runner: one of them makes due jobs available.'
            ELSE format('Look who should do it: SELECT * FROM %I.maintenance WHERE service = ''promoter'';', current_schema())
        END
    FROM job AS j
    WHERE j.waiting AND j.scheduled_at < statement_timestamp() - waiting_longer_than
    ORDER BY j.scheduled_at
    LIMIT look_at
),
next_queue AS (
    -- From one queue to the next, without what lies between.
    (SELECT j.queue FROM job AS j WHERE j.ready ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
    FROM next_queue AS q
    CROSS JOIN LATERAL (
        SELECT j.queue FROM job AS j WHERE j.ready AND j.queue > q.queue ORDER BY j.queue LIMIT 1
    ) AS n
),
available_queue AS MATERIALIZED (
    SELECT
        n.queue, q.paused_at,
        EXISTS (SELECT FROM live_runner AS r WHERE n.queue = ANY (r.queues)) AS is_worked,
        -- A runner that has none of the queue's jobs would take the next one, if it knew its kind. So
        -- would one that has started a job from behind it.
        NOT coalesce(c.running >= q.max_running, false) AND EXISTS (
            SELECT FROM live_runner AS r
            WHERE n.queue = ANY (r.queues)
                AND r.started_at < statement_timestamp() - waiting_longer_than
                AND NOT EXISTS (
                    SELECT FROM job AS j WHERE j.queue = n.queue AND j.state = 'running' AND j.worker = r.id
                )
        ) AS has_free_runner
    FROM next_queue AS n
    LEFT JOIN queue AS q ON q.name = n.queue
    LEFT JOIN LATERAL (
        SELECT count(*) AS running
        FROM (
            SELECT FROM job AS j WHERE j.queue = n.queue AND j.state = 'running' LIMIT q.max_running
        ) AS r
        WHERE q.max_running IS NOT NULL
    ) AS c ON true
),
passing AS MATERIALIZED (
    SELECT j.queue, j.priority, max(j.scheduled_at) AS last_scheduled_at
    FROM job AS j
    WHERE j.state = 'running' AND j.attempted_at > statement_timestamp() - waiting_longer_than
    GROUP BY j.queue, j.priority
),
available AS (
    SELECT
        j.id, j.kind, j.queue, 'available', j.attempt, NULL::uuid,
        greatest(j.scheduled_at, j.created_at, q.paused_at),
        w.reason,
        CASE w.reason
            WHEN 'its queue is paused' THEN format('SELECT * FROM %I.resume_queue(%L);', current_schema(), j.queue)
            WHEN 'no runner works its queue' THEN format('Start a runner that works queue %s.', to_json(j.queue))
            ELSE format('Start a runner of queue %s that knows kind %s.', to_json(j.queue), to_json(j.kind))
        END
    FROM available_queue AS q
    CROSS JOIN LATERAL (
        SELECT j.id, j.kind, j.queue, j.attempt, j.priority, j.scheduled_at, j.created_at
        FROM job AS j
        WHERE j.queue = q.queue AND j.ready
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT least(100, look_at)
    ) AS j
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN q.paused_at IS NOT NULL THEN 'its queue is paused'
            WHEN NOT q.is_worked THEN 'no runner works its queue'
            WHEN q.has_free_runner OR EXISTS (
                SELECT FROM passing AS p
                WHERE p.queue = j.queue
                    AND (
                        p.priority < j.priority
                        OR (p.priority = j.priority AND p.last_scheduled_at > j.scheduled_at)
                    )
            ) THEN 'no runner takes it'
        END AS reason
    ) AS w
    WHERE w.reason IS NOT NULL
        AND greatest(j.scheduled_at, j.created_at, q.paused_at) < statement_timestamp() - waiting_longer_than
    LIMIT look_at
)
SELECT
    s.id, s.kind, s.queue, s.state, s.attempt, s.worker, s.since,
    -- A job may be due since '-infinity', which cannot be subtracted.
    CASE WHEN isfinite(s.since) THEN statement_timestamp() - s.since END,
    s.reason, s.remedy
FROM (
    SELECT r.id, r.kind, r.queue, r.state, r.attempt, r.worker, r.since, r.reason, r.remedy FROM running AS r
    UNION ALL
    SELECT w.* FROM waiting AS w
    UNION ALL
    SELECT a.* FROM available AS a
) AS s
ORDER BY s.since, s.id
$$;
COMMENT ON FUNCTION stuck_jobs(interval, interval, integer) IS
    'The rows of the view stuck_job: for each reason up to look_at jobs, of the available ones up to 100 a queue, those that would be fetched next. running_longer_than: from when on a running job is listed although its runner lives. waiting_longer_than: from when on a job that is due or available is.';
