-- Which jobs a fetch takes, and what it returns of them.

CREATE FUNCTION _available_jobs(queue_name text, most bigint) RETURNS TABLE (
    id uuid, kind text, attempt smallint, priority smallint, scheduled_at timestamptz, created_at timestamptz,
    has_group boolean
)
    LANGUAGE sql STABLE ROWS 100
-- A function with settings cannot be inlined. Inlined, it reads only the columns that the calling statement needs. Each part
-- is in the order of its index, so that its scan stops at the limit.
BEGIN ATOMIC
    (
        SELECT j.id, j.kind::text, j.attempt::smallint, j.priority, j.scheduled_at, j.created_at, false AS has_group
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NULL AND j.state = 'available'
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT most
    )
    UNION ALL
    (
        SELECT j.id, j.kind::text, j.attempt::smallint, j.priority, j.scheduled_at, j.created_at, true AS has_group
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
        ORDER BY j.priority DESC, j.group_key, j.scheduled_at, j.id
        LIMIT most
    );
END;
COMMENT ON FUNCTION _available_jobs IS 'The first available jobs of a queue: up to `most` without a group, in the order of work, and up to `most` of groups, by priority and key.';

CREATE FUNCTION _plain_jobs(
    worker_id uuid, queues jsonb, kinds text[], except_ids uuid[], cursor_queues text[], cursor_priorities smallint[],
    cursor_times timestamptz[], cursor_ids uuid[]
) RETURNS TABLE (wanted jsonb, is_guarded boolean, ids uuid[], returning_ids uuid[], leaves_out boolean)
    LANGUAGE plpgsql VOLATILE
AS $$
-- One statement finds out what guards a queue and scans it, so no limit that is committed together with jobs is missed.
-- What guards single jobs, a group or a crash, is asked of each job as well.
BEGIN
    RETURN QUERY
    SELECT w.wanted, w.is_guarded, c.ids, c.returning_ids, c.leaves_out
    FROM (
        SELECT
            e.wanted, d.name, d.free, d.idle, d.name = ANY (cursor_queues) AS has_cursor,
            d.has_row IS NOT TRUE AND coalesce(
                q.paused_at IS NOT NULL OR q.max_running IS NOT NULL OR q.rate_count IS NOT NULL
                    OR q.held_until > clock_timestamp(),
                false
            ) OR d.is_past_guard IS NOT TRUE AND coalesce(
                -- The first entry of each index. EXISTS would let the planner read all of them into a hash.
                (
                    SELECT true
                    FROM job AS j
                    WHERE j.queue = d.name AND j.group_key IS NULL AND j.state = 'available' AND j.crashes > 0
                        AND (j.kind = ANY (kinds)) IS NOT FALSE AND j.id <> ALL (except_ids)
                    ORDER BY j.crashes
                    LIMIT 1
                ),
                (
                    SELECT true
                    FROM job AS j
                    WHERE j.queue = d.name AND j.group_key IS NOT NULL AND j.state = 'available'
                    ORDER BY j.priority DESC
                    LIMIT 1
                ),
                false
            ) AS is_guarded
        FROM jsonb_array_elements(queues) AS e (wanted)
        CROSS JOIN LATERAL jsonb_to_record(e.wanted)
            AS d (name text, free integer, idle integer, is_past_guard boolean, has_row boolean)
        LEFT JOIN queue AS q ON q.name = d.name
        -- A runner that has not noticed yet that its lease ran out would take what was just rescued.
        WHERE EXISTS (SELECT FROM runner AS r WHERE r.id = worker_id AND r.leased_until > clock_timestamp())
        -- Each queue is asked once.
        OFFSET 0
    ) AS w
    -- From the positions of the cursor on, else from the head of the queue, which is a position before all jobs.
    CROSS JOIN LATERAL (
        SELECT
            coalesce(array_agg(n.id) FILTER (WHERE n.may_wait OR n.place <= w.idle), '{}') AS ids,
            coalesce(array_agg(n.id) FILTER (WHERE n.returns AND (n.may_wait OR n.place <= w.idle)), '{}') AS returning_ids,
            coalesce(bool_or(NOT n.may_wait AND n.place > w.idle), false) AS leaves_out
        FROM (
            SELECT n.id, n.may_wait, n.returns, row_number() OVER () AS place
            FROM (
                -- unnest keeps the order of the positions.
                SELECT u.priority AS lowest, u.priority AS highest, u.scheduled_at, u.id
                FROM unnest(cursor_queues, cursor_priorities, cursor_times, cursor_ids) AS u (queue, priority, scheduled_at, id)
                WHERE u.queue = w.name
                UNION ALL
                SELECT -32768, 32767, '-infinity', '00000000-0000-0000-0000-000000000000' WHERE NOT w.has_cursor
            ) AS p
            CROSS JOIN LATERAL (
                SELECT
                    j.id, j.max_attempts > 1 AND j.expires_at IS NULL AS may_wait,
                    j.unique_yielded OR _enters_claim(j.unique_states, 'available', 'running') AS returns
                FROM job AS j
                WHERE j.queue = w.name AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
                    AND j.priority BETWEEN p.lowest AND p.highest AND (j.scheduled_at, j.id) > (p.scheduled_at, p.id)
                    AND (j.kind = ANY (kinds)) IS NOT FALSE AND j.id <> ALL (except_ids)
                    AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
                ORDER BY j.priority DESC, j.scheduled_at, j.id
                LIMIT CASE WHEN w.is_guarded THEN 0 ELSE w.free END
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS n
            LIMIT CASE WHEN w.is_guarded THEN 0 ELSE w.free END
        ) AS n
    ) AS c;
END
$$;
COMMENT ON FUNCTION _plain_jobs IS 'The next jobs of these queues and kinds without a group or a crash. Locks them. queues: an array of {"name", "free", "idle"}: at most free jobs, of which only the first idle may have a single attempt or expire (leaves_out: there were more such jobs). is_guarded: settings, groups or crashes let the queue give none here. returning_ids: the jobs that come back to their unique states.';

CREATE FUNCTION _guarded_jobs(
    wanted jsonb, kinds text[], except_ids uuid[], suspects integer, is_alone boolean,
    OUT ids uuid[], OUT suspects_taken integer, OUT is_rated boolean, OUT rest jsonb, OUT facts jsonb
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    w record;
    g record;
    settings queue;
    locked queue;
    fewest_crashes smallint;
    has_groups boolean;
    visits_groups boolean;
    slots integer;
    began_at timestamptz;
    next_at timestamptz;
BEGIN
    SELECT d.* INTO w
    FROM jsonb_to_record(wanted)
        AS d (name text, free integer, idle integer, after_group text, visits integer, freed text[]);
    -- Of the suspect with the fewest crashes.
    fewest_crashes := (
        SELECT j.crashes
        FROM job AS j
        WHERE j.queue = w.name AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
            AND (j.kind = ANY (kinds)) IS NOT FALSE AND j.id <> ALL (except_ids)
        ORDER BY j.crashes
        LIMIT 1
    );
    has_groups := EXISTS (
        SELECT FROM job AS j
        WHERE j.queue = w.name AND j.group_key IS NOT NULL AND j.state = 'available'
        ORDER BY j.priority DESC
        LIMIT 1
    );
    visits_groups := has_groups AND w.idle > 0 AND (w.visits > 0 OR cardinality(w.freed) > 0);
    SELECT q.* INTO settings FROM queue AS q WHERE q.name = w.name;
    IF visits_groups OR settings.max_running IS NOT NULL OR settings.rate_count IS NOT NULL THEN
        -- What was set before the row was locked is seen, and nothing is set until the transaction ends.
        locked := _lock_queue(w.name);
        visits_groups := visits_groups AND locked.name IS NOT NULL;
        settings := coalesce(locked, settings);
    END IF;
    slots := CASE
        WHEN settings.paused_at IS NOT NULL OR settings.held_until > clock_timestamp() THEN 0
        WHEN settings.max_running IS NULL AND settings.rate_count IS NULL THEN w.free
        -- Another transaction has the row for long. Other queues do not wait for that, and this one is asked for again.
        WHEN locked.name IS NULL THEN 0
        -- This statement begins with the row in hand, so it sees what other fetches started. A token is not spent ahead.
        ELSE least(
            CASE WHEN settings.rate_count IS NULL THEN w.free ELSE w.idle END,
            _rate_tokens(
                settings.rate_count, settings.rate_period, settings.rate_burst, settings.rate_full_at, clock_timestamp()
            ),
            settings.max_running - (
                SELECT count(*)
                FROM (
                    SELECT FROM job AS r
                    WHERE r.queue = w.name AND r.state = 'running'
                    LIMIT coalesce(settings.max_running, 0)
                ) AS r
            )
        )
    END;
    next_at := CASE
        WHEN settings.paused_at IS NULL THEN greatest(settings.held_until, _next_token_at(
            settings.rate_count, settings.rate_period, settings.rate_burst, settings.rate_full_at
        ))
    END;
    -- Suspects first, and only where a slot is idle.
    ids := ARRAY(
        SELECT j.id
        FROM job AS j
        WHERE j.queue = w.name AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
            AND (j.crashes > 1) = is_alone AND (j.kind = ANY (kinds)) IS NOT FALSE AND j.id <> ALL (except_ids)
        ORDER BY j.crashes, j.priority DESC, j.scheduled_at, j.id
        LIMIT CASE WHEN fewest_crashes > 0 THEN least(slots, w.idle, suspects) ELSE 0 END
        FOR NO KEY UPDATE SKIP LOCKED
    );
    suspects_taken := cardinality(ids);
    began_at := clock_timestamp();
    SELECT j.* INTO g
    FROM (SELECT WHERE visits_groups AND least(slots, w.idle) > suspects_taken) AS v
    CROSS JOIN LATERAL _jobs_of_groups(
        w.name, kinds, least(slots, w.idle) - suspects_taken, suspects - suspects_taken, is_alone, except_ids, w.visits,
        w.after_group, w.freed
    ) AS j
    WHERE j.reached IS NOT NULL;
    ids := ids || g.ids;
    suspects_taken := suspects_taken + coalesce(g.suspects_taken, 0);
    is_rated := settings.rate_count IS NOT NULL OR g.is_rated IS TRUE;
    rest := CASE
        WHEN NOT is_alone AND slots > cardinality(ids) THEN jsonb_build_array(jsonb_build_object(
            'name', w.name, 'free', slots - cardinality(ids), 'idle', w.idle - cardinality(ids),
            'is_past_guard', true, 'has_row', locked.name IS NOT NULL
        ))
    END;
    facts := jsonb_build_object(
        'name', w.name,
        'is_held_back', slots < w.free,
        'is_limited', settings.max_running IS NOT NULL OR settings.rate_count IS NOT NULL,
        'has_suspects', slots > 0 AND (coalesce(fewest_crashes, 0) > 0 OR coalesce(g.suspects_seen, 0) > 0),
        'alone_crashes', least(
            CASE WHEN slots > 0 AND fewest_crashes > 1 THEN fewest_crashes END, CASE WHEN g.suspects_seen = 0 THEN g.alone_crashes END
        ),
        'has_groups', has_groups,
        'visit', CASE
            WHEN g.reached IS NOT NULL THEN jsonb_build_object(
                'reached', g.reached, 'has_startable', g.has_startable,
                'took', extract(epoch FROM clock_timestamp() - began_at)
            )
        END,
        'next_in', extract(epoch FROM least(
            CASE WHEN next_at > clock_timestamp() THEN next_at END, CASE WHEN g.next_at > clock_timestamp() THEN g.next_at END
        ) - clock_timestamp())
    );
END
$$;
COMMENT ON FUNCTION _guarded_jobs IS 'The next suspects and jobs of groups of one queue, at most idle. Locks them, and the queue''s row where that is needed. wanted: {"name", "free", "idle", "after_group", "visits", "freed"}, the last three as in _jobs_of_groups. suspects: how many it may take. is_alone: take one that crashed twice or more, and nothing else. rest: what _plain_jobs may take after it. facts: what the runner learns.';

CREATE TYPE fetch_plan AS (
    worker_id uuid,
    queues jsonb,
    except_ids uuid[],
    suspects integer,
    on_trial integer,
    is_alone boolean,
    is_draining boolean,
    may_drain boolean,
    lone_id uuid,
    next_at timestamptz,
    is_remote boolean,
    memory jsonb
);
COMMENT ON TYPE fetch_plan IS 'What a fetch may take. queues, except_ids, suspects, is_alone: as in _fetch_jobs. on_trial: the suspects that run for less than 10 s. is_draining: nothing, since a suspect runs alone or is about to. may_drain: whether a suspect that is to run alone stops later fetches. lone_id: the job that is fetched alone. next_at: when is_draining can end. is_remote: memory is in the worker''s row.';

CREATE FUNCTION _fetch_jobs(
    worker_id uuid, queues jsonb, kinds text[], except_ids uuid[], suspects integer, is_alone boolean, cursor_queues text[],
    cursor_priorities smallint[], cursor_times timestamptz[], cursor_ids uuid[], reserve interval, memory jsonb
) RETURNS TABLE (
    facts jsonb, id uuid, kind short_name, queue short_name, priority smallint, attempt attempt_count,
    max_attempts attempt_limit, created_at timestamptz, scheduled_at timestamptz, args jsonb, meta jsonb, errors jsonb,
    output jsonb, progress jsonb, unique_key key_text, unique_states state_mask, unique_until timestamptz, claims boolean,
    until_start boolean, replaced_by uuid, run integer, crashes smallint, group_key key_text, group_limit group_limit,
    in_order boolean, updates integer, updated_at timestamptz, updated_by uuid, discard_on_reentry boolean,
    reserved_until timestamptz, expires_at timestamptz
)
    LANGUAGE plpgsql VOLATILE
AS $$
-- Plain jobs come from queues that nothing guards, in one statement. Each other queue takes its own steps, all queues in
-- one order, so that two fetches never wait for each other. The jobs that are chosen are locked, and start together.
DECLARE
    plan fetch_plan;
    plain record;
    guarded jsonb[] := '{}';
    guard record;
    wanted jsonb;
    chosen uuid[] := '{}';
    others uuid[] := '{}';
    returning_ids uuid[] := '{}';
    left_out text[] := '{}';
    suspects_left integer;
    is_rated boolean := false;
    spent record;
    of_queues jsonb := '[]';
    started_at timestamptz;
BEGIN
    IF suspects IS NULL THEN
        plan := _plan_fetch(worker_id, queues, except_ids, memory);
        queues := plan.queues;
        except_ids := plan.except_ids;
        suspects := plan.suspects;
        is_alone := plan.is_alone;
    END IF;
    suspects_left := suspects;
    -- First all queues, then what the guarded ones leave to a scan.
    FOR pass IN 1..2 LOOP
        IF is_alone THEN
            guarded := ARRAY(
                SELECT e.wanted
                FROM jsonb_array_elements(queues) AS e (wanted)
                WHERE EXISTS (SELECT FROM runner AS r WHERE r.id = worker_id AND r.leased_until > clock_timestamp())
                ORDER BY e.wanted ->> 'name' COLLATE "C"
            );
        ELSE
            FOR plain IN
                SELECT p.*
                FROM _plain_jobs(
                    worker_id, queues, kinds, except_ids, cursor_queues, cursor_priorities, cursor_times, cursor_ids
                ) AS p
                ORDER BY p.wanted ->> 'name' COLLATE "C"
            LOOP
                guarded := guarded || CASE WHEN plain.is_guarded THEN ARRAY[plain.wanted] END;
                chosen := chosen || plain.ids;
                returning_ids := returning_ids || plain.returning_ids;
                left_out := left_out || CASE WHEN plain.leaves_out THEN ARRAY[plain.wanted ->> 'name'] END;
            END LOOP;
        END IF;
        EXIT WHEN pass = 2 OR guarded = '{}';
        queues := '[]';
        FOREACH wanted IN ARRAY guarded LOOP
            SELECT g.* INTO guard FROM _guarded_jobs(wanted, kinds, except_ids, suspects_left, is_alone) AS g;
            others := others || guard.ids;
            suspects_left := suspects_left - guard.suspects_taken;
            is_rated := is_rated OR guard.is_rated;
            of_queues := of_queues || guard.facts;
            queues := queues || coalesce(guard.rest, '[]');
        END LOOP;
        EXIT WHEN queues = '[]';
    END LOOP;
    IF cardinality(others) > 0 THEN
        chosen := chosen || others;
        returning_ids := returning_ids || ARRAY(
            SELECT j.id
            FROM job AS j
            WHERE j.id = ANY (others)
                AND (j.unique_yielded OR _enters_claim(j.unique_states, 'available', 'running'))
        );
    END IF;

    started_at := clock_timestamp();
    RETURN QUERY
    UPDATE job AS j
    SET state = 'running',
        -- The fence: no other run of the job has this number.
        run = j.run % 2147483647 + 1,
        -- Capped, so that no count stops a queue.
        attempt = least(j.attempt::integer + 1, 32767),
        attempted_at = started_at,
        worker = worker_id,
        reserved_until = started_at + reserve,
        -- Where a job in order begins, it stays first in its group until it is final.
        began = CASE WHEN j.in_order THEN coalesce(j.began, j.run % 2147483647 + 1) END,
        unique_states = CASE WHEN j.until_start AND j.unique_states > 0 THEN 0 ELSE j.unique_states END,
        unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, 'available', 'running')
    -- No job starts at or after its expires_at, however long the choice took.
    WHERE j.id = ANY (chosen) AND (j.expires_at IS NULL OR j.expires_at > started_at)
    -- What most jobs do not have is null, which is cheap to send.
    RETURNING
        NULL::jsonb, j.id, j.kind, j.queue, j.priority, j.attempt, j.max_attempts, j.created_at, j.scheduled_at, j.args,
        nullif(j.meta, '{}'), nullif(j.errors, '[]'), j.output, j.progress, j.unique_key, j.unique_states, j.unique_until,
        nullif(j.claims, false), nullif(j.until_start, false), j.replaced_by, j.run,
        nullif(j.crashes::smallint, 0::smallint), j.group_key, j.group_limit, j.in_order, j.updates, j.updated_at,
        j.updated_by, nullif(j.discard_on_reentry, false), j.reserved_until, j.expires_at;

    IF is_rated THEN
        SELECT array_agg(j.queue::text) AS queues, array_agg(j.group_key::text) AS groups INTO spent
        FROM job AS j
        WHERE j.id = ANY (chosen) AND j.state = 'running';
        PERFORM _spend_tokens(spent.queues, spent.groups, started_at);
    END IF;
    facts := jsonb_build_object(
        'began_at', statement_timestamp(),
        'started_at', started_at,
        'left_out', to_jsonb(left_out),
        'queues', of_queues,
        'plan', CASE
            WHEN plan.memory ? 'is_careful' OR plan.worker_id IS NOT NULL
                AND of_queues @? '$[*] ? (@.has_suspects == true || @.alone_crashes != null)'
                THEN _note_fetch(plan, of_queues, chosen, suspects - suspects_left)
        END,
        'discarded', CASE WHEN cardinality(returning_ids) > 0 THEN _take_claims(returning_ids) END
    );
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION _fetch_jobs IS 'Starts and returns the next jobs of these queues and kinds (null: any) for a live runner. suspects: how many it may take. Null: as _plan_fetch says. reserve: how long they belong to a remote worker. memory: as in _plan_fetch. queues: as _plain_jobs and _guarded_jobs. A scan begins behind its queue''s cursor. A column that has its default is null. The row without an id has what was learned.';
