-- What a worker remembers between two fetches: the suspects that it has, and the jobs that no fetch can start.
--
-- Suspects are jobs whose worker died while it had them. One of them may be the reason, and would kill this process too.
--
--  crashes   fetched                                             another crash
--     0      with others, and ahead of free slots                1: a suspect, no attempt used up
--     1      for a free slot: one, then two, four, … as they     2: an attempt used up
--            end or run for 10 s
--    2 …     alone: the worker starts nothing beside it          discarded if it was alone, by default at the third
--
-- For a job that is to run alone, the worker starts nothing until its jobs have ended, or for 2 s. Then it gets that job,
-- and nothing else for 10 s. Both times grow fourfold with each further crash, up to 32 s and 40 s. So the crash of a job
-- that kills within that time is its own sooner or later, and jobs that run for long cannot stop the worker. Afterwards
-- others have their turn, for as long as the suspect ran alone.
--
-- A job that the database cannot read or start fails the whole fetch, and the error names no job. So the next jobs are
-- tried one by one, and those at fault are set aside: later fetches leave them out, for longer each time. A job is discarded
-- only for a damaged value or for its size, and only after it failed more than once while the database answered others. An
-- error that may pass by itself, such as one of a trigger, costs no job. A job that may be too large for a fetch with others
-- is fetched alone, in turn with the others.

CREATE FUNCTION _suspect_time(first interval, crashes integer, longest interval) RETURNS interval
    LANGUAGE sql IMMUTABLE
    RETURN least(first * power(4, least(greatest(crashes - 2, 0), 9)), longest);
COMMENT ON FUNCTION _suspect_time IS 'A time that grows fourfold with each crash after the second, up to the longest.';

CREATE FUNCTION _later(job jsonb, first interval, longest interval) RETURNS jsonb
    LANGUAGE sql VOLATILE
    RETURN (
        SELECT job || jsonb_build_object('wait', w.wait, 'until', clock_timestamp() + w.wait)
        FROM (SELECT least(greatest((job ->> 'wait')::interval * 2, first), longest) AS wait) AS w
    );
COMMENT ON FUNCTION _later IS 'A job that is set aside, left out for twice the wait before, at least first and at most longest.';

CREATE FUNCTION _plan_fetch(worker_id uuid, queues jsonb, except_ids uuid[], memory jsonb) RETURNS fetch_plan
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    plan fetch_plan;
    worker record;
    hand record;
    drains_until timestamptz;
    lone record;
BEGIN
    plan.is_remote := memory IS NULL;
    IF plan.is_remote OR memory ? 'is_careful' THEN
        SELECT r.memory, r.queues INTO worker FROM runner AS r WHERE r.id = worker_id;
        memory := coalesce(memory, worker.memory);
    END IF;
    plan.worker_id := worker_id;
    plan.queues := queues;
    plan.except_ids := except_ids;
    plan.memory := memory;
    plan.suspects := 1 + coalesce((plan.memory ->> 'taken')::integer, 0);
    plan.is_alone := false;
    plan.is_draining := false;
    plan.on_trial := 0;
    IF plan.memory ? 'is_careful' THEN
        SELECT
            count(*) AS running,
            count(*) FILTER (WHERE j.crashes = 1 AND j.attempted_at > at - interval '10 s') AS on_trial,
            max(j.alone_until) FILTER (WHERE j.crashes > 1 AND j.alone_until > at) AS alone_until
        INTO hand
        FROM unnest(worker.queues) AS q (name)
        CROSS JOIN LATERAL (
            SELECT
                r.crashes, r.attempted_at,
                r.attempted_at + _suspect_time(interval '10 s', r.crashes, interval '40 s') AS alone_until
            FROM job AS r
            WHERE r.queue = q.name AND r.worker = worker_id AND r.state = 'running'
        ) AS j;
        drains_until := plan.memory ->> 'drains_until';
        plan.on_trial := hand.on_trial;
        plan.suspects := greatest(plan.suspects - 2 * hand.on_trial, 0);
        plan.is_alone := drains_until IS NOT NULL AND hand.alone_until IS NULL;
        plan.is_draining := hand.alone_until IS NOT NULL
            OR coalesce(hand.running > 0 AND drains_until BETWEEN at AND at + interval '40 s', false);
        plan.next_at := coalesce(hand.alone_until, drains_until);
        IF plan.memory ? 'alone_at' AND hand.alone_until IS NULL THEN
            plan.memory := plan.memory - 'alone_at' || jsonb_build_object(
                'rests_until', at + least(at - (plan.memory ->> 'alone_at')::timestamptz, interval '40 s')
            );
        END IF;
        SELECT
            array_agg(a.id::uuid) FILTER (
                WHERE a.until BETWEEN at AND at + interval '10 min' OR a.bytes IS NOT NULL OR a.doom IS NOT NULL
            ) AS ids,
            -- The one that has been due for longest: _set_aside finds the same one, though others have become due since.
            (array_agg(a.id ORDER BY a.until, a.id) FILTER (
                WHERE a.bytes IS NOT NULL AND a.doom IS NULL AND (a.until BETWEEN at AND at + interval '10 min') IS NOT TRUE
                    AND EXISTS (
                        SELECT FROM jsonb_array_elements(queues) AS e (wanted)
                        WHERE e.wanted ->> 'name' = a.queue AND (e.wanted ->> 'idle')::integer > 0
                    )
            ))[1]::uuid AS id
        INTO lone
        FROM jsonb_each(plan.memory -> 'aside') AS e (id, job)
        CROSS JOIN LATERAL (
            SELECT e.id, r.* FROM jsonb_to_record(e.job) AS r (queue text, until timestamptz, bytes bigint, doom text)
        ) AS a;
        plan.except_ids := plan.except_ids || lone.ids;
        IF plan.is_alone THEN
            -- The suspect may be one that is fetched alone.
            plan.except_ids := array_remove(plan.except_ids, lone.id);
        ELSIF NOT plan.memory ? 'was_lone' THEN
            plan.lone_id := lone.id;
        END IF;
    END IF;
    plan.may_drain := plan.on_trial = 0
        AND ((plan.memory ->> 'rests_until')::timestamptz BETWEEN at AND at + interval '40 s') IS NOT TRUE;
    IF plan.is_draining THEN
        plan.queues := '[]';
    ELSIF plan.is_alone AND plan.is_remote THEN
        plan.queues := (SELECT jsonb_agg(jsonb_build_object('name', q.name, 'idle', 1)) FROM unnest(worker.queues) AS q (name));
    ELSIF plan.lone_id IS NOT NULL THEN
        plan.except_ids := array_remove(plan.except_ids, plan.lone_id);
        plan.queues := jsonb_build_array(
            jsonb_build_object('name', plan.memory #> ARRAY['aside', plan.lone_id::text, 'queue'], 'idle', 1)
        );
    END IF;
    IF plan.is_alone OR plan.lone_id IS NOT NULL THEN
        plan.queues := coalesce((
            SELECT jsonb_agg('{"after_group": "", "freed": []}' || e.wanted || '{"free": 1, "visits": 10000}')
            FROM jsonb_array_elements(plan.queues) AS e (wanted)
        ), '[]');
    END IF;
    RETURN plan;
END
$$;
COMMENT ON FUNCTION _plan_fetch IS 'What a fetch may take, given the jobs that the worker has and what it remembers. queues, except_ids: as in _fetch_jobs. memory: what a runner remembers. Null: the worker is a remote one, whose row has it. Returns queues and except_ids as they are to be fetched.';

CREATE FUNCTION _remember(worker_id uuid, memory jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    -- Never waits for another process of the name.
    UPDATE runner AS r
    SET memory = _remember.memory
    WHERE r.id = ANY (ARRAY(
        SELECT w.id FROM runner AS w WHERE w.id = worker_id AND w.memory <> _remember.memory FOR NO KEY UPDATE SKIP LOCKED
    ));
END
$$;
COMMENT ON FUNCTION _remember IS 'Stores what a worker remembers between fetches if it changed, unless another transaction has its row locked.';

CREATE FUNCTION _note_fetch(plan fetch_plan, of_queues jsonb, ids uuid[], suspects_taken integer) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    -- A job that can be started is forgotten after a while, and so is how often it failed.
    memory jsonb := plan.memory - '{aside, was_lone, is_careful}'::text[] || (
        SELECT CASE WHEN count(*) > 0 THEN jsonb_build_object('aside', jsonb_object_agg(a.id, a.job)) ELSE '{}' END
        FROM jsonb_each(plan.memory -> 'aside') AS a (id, job)
        WHERE a.job ? 'bytes' OR (a.job ->> 'until')::timestamptz BETWEEN at - interval '1 min' AND at + interval '10 min'
    );
    is_partial CONSTANT boolean := plan.is_alone OR plan.is_draining OR plan.lone_id IS NOT NULL;
    pause interval;
    lone jsonb;
    seen record;
    doomed record;
    discarded jsonb := '{}';
    is_careful boolean;
BEGIN
    SELECT
        coalesce(bool_or((q.facts ->> 'has_suspects')::boolean OR (q.facts -> 'alone_crashes') <> 'null'), false) AS has_suspects,
        min((q.facts ->> 'alone_crashes')::integer) AS alone_crashes
    INTO seen
    FROM jsonb_array_elements(of_queues) AS q (facts);
    IF plan.is_alone AND NOT plan.is_draining THEN
        memory := memory - 'drains_until';
        IF suspects_taken > 0 THEN
            memory := memory - 'pause' || jsonb_build_object('alone_at', at);
        ELSE
            -- Another worker had it, or it is locked, perhaps for long.
            pause := least(coalesce((memory ->> 'pause')::interval * 2, interval '1 s'), interval '10 s');
            memory := memory || jsonb_build_object('pause', pause, 'rests_until', at + pause);
        END IF;
    ELSIF NOT plan.is_draining THEN
        IF suspects_taken > 0 THEN
            memory := memory || jsonb_build_object('taken', coalesce((memory ->> 'taken')::integer, 0) + suspects_taken);
        END IF;
        IF plan.may_drain AND seen.alone_crashes IS NOT NULL THEN
            memory := memory || jsonb_build_object(
                'drains_until', at + _suspect_time(interval '2 s', seen.alone_crashes, interval '32 s')
            );
        END IF;
    END IF;
    IF plan.lone_id IS NOT NULL THEN
        lone := memory #> ARRAY['aside', plan.lone_id::text];
        memory := memory #- ARRAY['aside', plan.lone_id::text] || '{"was_lone": true}';
        -- Perhaps it starts now, or is gone. Or it is locked, as by a fetch that was given up and still runs, or its queue is
        -- paused. It is fetched alone until it is final.
        IF EXISTS (SELECT FROM job AS j WHERE j.id = plan.lone_id AND j.finalized_at IS NULL) THEN
            memory := jsonb_set(memory, ARRAY['aside', plan.lone_id::text], _later(lone, '1 s', '1 min'));
        END IF;
    END IF;
    FOR doomed IN
        SELECT a.id, a.entry FROM jsonb_each(memory -> 'aside') AS a (id, entry)
        WHERE a.entry ? 'doom' AND (a.entry ->> 'until')::timestamptz <= clock_timestamp()
    LOOP
        IF _discard_unreadable(doomed.id::uuid, doomed.entry ->> 'doom') THEN
            memory := memory #- ARRAY['aside', doomed.id];
            discarded := discarded || jsonb_build_object(doomed.id, doomed.entry -> 'doom');
        ELSE
            -- The server may still be at work on a fetch that was given up. A lock that lasts longer may be that of a session
            -- which mends the row, so the job is tried again.
            memory := jsonb_set(memory, ARRAY['aside', doomed.id], _later(
                doomed.entry - CASE WHEN (doomed.entry ->> 'wait')::interval >= interval '8 s' THEN 'doom' ELSE '' END,
                '500 ms', '10 min'
            ));
        END IF;
    END LOOP;
    memory := memory - CASE WHEN memory -> 'aside' = '{}' THEN 'aside' ELSE '' END;
    is_careful := plan.on_trial > 0 OR seen.has_suspects OR memory ?| '{drains_until, alone_at, aside}';
    IF is_careful THEN
        memory := memory || '{"is_careful": true}';
    END IF;
    -- The server may take long to send the row of a large job. This transaction must not lock the row of a remote worker
    -- meanwhile, since its heartbeats change it. The next fetch of this job finds it running or final.
    IF plan.is_remote AND (plan.lone_id = ANY (ids)) IS NOT TRUE THEN
        PERFORM _remember(plan.worker_id, memory);
    END IF;
    RETURN jsonb_build_object(
        'memory', memory,
        'is_careful', is_careful,
        'is_partial', is_partial,
        'is_draining', plan.is_draining,
        'may_fetch_ahead', plan.on_trial = 0 AND NOT seen.has_suspects AND NOT is_partial,
        'discarded', discarded,
        'next_in', extract(epoch FROM plan.next_at - at)
    );
END
$$;
COMMENT ON FUNCTION _note_fetch IS 'What a worker remembers of a fetch, stored for a remote worker. of_queues: the facts of the guarded queues. ids: the started jobs, suspects_taken of them suspects. Returns what a runner learns: memory, is_careful (it sends one fetch at a time), is_partial (the fetch took less than was wanted), is_draining (it takes nothing), may_fetch_ahead, discarded (jobs set aside), next_in (seconds).';

CREATE FUNCTION _set_aside(
    worker_id uuid, queues jsonb, kinds text[], only_ids uuid[], may_be_size boolean, step interval, failure text, known jsonb
) RETURNS TABLE (id uuid, is_tried boolean, problem text, memory jsonb)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    plan fetch_plan := _plan_fetch(worker_id, queues, '{}', known);
    aside jsonb := coalesce(plan.memory -> 'aside', '{}');
    ids uuid[] := only_ids;
    seconds CONSTANT double precision := extract(epoch FROM step);
    tried record;
    entry jsonb;
    doom text;
BEGIN
    IF (SELECT count(*) FROM jsonb_object_keys(aside)) >= 1000 THEN
        RETURN;
    END IF;
    IF plan.is_alone THEN
        -- A suspect that cannot be fetched holds up no other job.
        plan.memory := plan.memory - 'drains_until' || jsonb_build_object('rests_until', clock_timestamp() + interval '10 s');
    END IF;
    IF ids IS NULL AND plan.lone_id IS NOT NULL THEN
        -- The fetch of this job alone failed, while the database answers.
        ids := '{}';
        id := plan.lone_id;
        is_tried := true;
        problem := failure;
        entry := aside -> id::text;
        IF may_be_size AND ((entry ->> 'bytes')::bigint >= 1000000 OR entry ? 'unread') THEN
            doom := CASE
                WHEN entry ? 'unread' THEN format('the job''s row cannot be read within %s ms', 10000 * seconds)
                ELSE format('the job''s row cannot be fetched: it has %s bytes: %s', entry ->> 'bytes', failure)
            END;
            entry := CASE
                WHEN entry ? 'slow' THEN entry || jsonb_build_object('doom', doom)
                ELSE entry || jsonb_build_object('slow', 1, 'until', clock_timestamp() + 10 * step)
            END;
        ELSE
            entry := _later(entry - 'bytes', '1 s', '10 min');
        END IF;
        aside := aside || jsonb_build_object(id, entry);
        RETURN NEXT;
    ELSIF ids IS NULL THEN
        ids := ARRAY(
            SELECT n.id
            FROM _next_jobs(
                ARRAY(SELECT e.wanted ->> 'name' FROM jsonb_array_elements(queues) AS e (wanted)),
                ARRAY(SELECT (e.wanted ->> 'free')::integer FROM jsonb_array_elements(queues) AS e (wanted)),
                kinds, plan.except_ids
            ) AS n (id)
        );
    END IF;
    FOR tried IN
        SELECT
            t.*, (SELECT j.queue FROM job AS j WHERE j.id = t.id) AS queue,
            t.bytes IS NULL AND left(t.code, 2) IN ('22', '54', '58', 'XX')
                -- The text of a value may have six times its bytes, and no text has more than 1 GB.
                OR t.code IS NULL AND may_be_size IS NULL AND t.bytes > 178956970 AS is_unreadable
        FROM try_jobs(ids, worker_id) AS t
    LOOP
        -- The time of the statement may have gone by with the jobs before it.
        EXIT WHEN tried.code = '57014' AND tried.took < seconds / 2;
        id := tried.id;
        ids := array_remove(ids, id);
        is_tried := true;
        problem := NULL;
        doom := NULL;
        entry := coalesce(aside -> id::text, '{}') - '{bytes, unread}'::text[];
        IF NOT tried.is_there THEN
            aside := aside - id::text;
        ELSIF tried.is_unreadable THEN
            problem := coalesce(tried.problem, 'the text of its values may exceed 1 GB');
            doom := CASE WHEN (entry ->> 'unreadable')::integer >= 2 THEN 'the job''s row cannot be read: ' || problem END;
            entry := entry || jsonb_build_object(
                'unreadable', coalesce((entry ->> 'unreadable')::integer, 0) + 1, 'until', clock_timestamp() + interval '1 s'
            );
        ELSIF tried.code = '57014' THEN
            IF tried.bytes IS NULL THEN
                -- The step is a small part of a fetch's time, so this says nothing about a fetch of the job alone.
                problem := format('the job''s row cannot be read within %s ms, so it is fetched alone', 1000 * seconds);
                entry := entry || '{"unread": 1}' || (
                    SELECT jsonb_build_object(
                        'queue', j.queue, 'until', clock_timestamp(),
                        'bytes', pg_column_size(j.args) + pg_column_size(j.meta) + coalesce(pg_column_size(j.output), 0)
                    )
                    FROM job AS j
                    WHERE j.id = tried.id
                );
            ELSE
                problem := format('the job cannot be started within %s ms', 1000 * seconds);
                entry := _later(entry, '1 s', '10 min');
            END IF;
        ELSIF tried.code IS NOT NULL THEN
            problem := tried.problem;
            entry := _later(entry - 'unreadable', '2 s', '1 min');
        ELSIF may_be_size AND (tried.bytes >= 1000000 OR tried.took > seconds / 2) THEN
            problem := CASE WHEN tried.bytes >= 1000000 THEN 'large' ELSE 'slow to start' END || ', so each is fetched alone';
            entry := entry || jsonb_build_object('queue', tried.queue, 'bytes', tried.bytes, 'until', clock_timestamp());
        END IF;
        IF doom IS NOT NULL THEN
            entry := entry || jsonb_build_object('doom', doom, 'until', clock_timestamp());
        END IF;
        IF problem IS NOT NULL THEN
            aside := aside || jsonb_build_object(id, entry);
        END IF;
        RETURN NEXT;
    END LOOP;
    is_tried := false;
    problem := NULL;
    FOREACH id IN ARRAY coalesce(ids, '{}') LOOP
        RETURN NEXT;
    END LOOP;
    id := NULL;
    memory := plan.memory || jsonb_build_object('aside', aside, 'is_careful', true);
    IF plan.is_remote THEN
        PERFORM _remember(worker_id, memory);
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION _set_aside IS 'After a fetch from these queues failed: tries the next jobs (only_ids: these) one by one, and sets those aside that fail. The next fetch discards those past help. may_be_size: it failed for its time or size. Null: a remote worker''s. step: the statement''s time. failure: its error. problem: why a job is set aside. is_tried false: the time was over. known: the memory. The last row has the new one.';
