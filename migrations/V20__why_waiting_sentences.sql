-- What can keep a job from starting: the codes and their sentences.

CREATE FUNCTION _obstacle_codes() RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '{
        final, running, runner_died, expired, parents, pending, scheduled, retryable, not_promoted, queue_paused, queue_held,
        queue_unworked, kind_unknown, queue_limit, queue_rate, queue_locked, group_held, group_began, group_limit, group_rate,
        group_head, slots_busy, suspect, behind, locked, not_taken, next, expires
    }'::text[];
COMMENT ON FUNCTION _obstacle_codes IS 'The codes of why_waiting, in the order of its rows.';

CREATE FUNCTION _time_text(at text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    -- to_char of an infinite time is null.
    RETURN coalesce(to_char(at::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), at);
COMMENT ON FUNCTION _time_text IS 'A time of a JSON document, as a sentence shows it: in UTC, in whole seconds.';

CREATE FUNCTION _session_text(details jsonb) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
            WHEN details ->> 'pid' IS NULL THEN format('Prepared transaction %s', to_json(details ->> 'application'))
            WHEN coalesce(details ->> 'application', '') = '' THEN format('Session %s', details ->> 'pid')
            ELSE format('Session %s (%s)', details ->> 'pid', details ->> 'application')
        END
        || CASE jsonb_array_length(details -> 'or')
            WHEN 1 THEN ' or another session'
            ELSE coalesce(' or one of ' || jsonb_array_length(details -> 'or') || ' other sessions', '')
        END;
COMMENT ON FUNCTION _session_text IS 'The first words of a sentence about a session or a prepared transaction that holds a lock.';

CREATE FUNCTION _open_text(details jsonb) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
        WHEN details ->> 'open_since' IS NULL THEN 'until its transaction ends'
        ELSE format('in a transaction open since %s', _time_text(details ->> 'open_since'))
    END;
COMMENT ON FUNCTION _open_text IS 'The last words of a sentence about a lock: how long its transaction has been open.';

CREATE FUNCTION _obstacle_reason(code text, details jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    queue CONSTANT text := to_json(details ->> 'queue');
    group_name CONSTANT text := to_json(details ->> 'group');
    kind CONSTANT text := to_json(details ->> 'kind');
    since CONSTANT text := _time_text(details ->> 'since');
    until CONSTANT text := _time_text(details ->> 'until');
    rate CONSTANT text := format('%s in %s s', details ->> 'count', details ->> 'period');
    job CONSTANT text := details ->> 'job';
    number CONSTANT bigint := details ->> 'jobs';
    jobs CONSTANT text := CASE
        WHEN number = 1 THEN '1 job'
        WHEN number > 10000 THEN 'more than 10,000 jobs'
        ELSE format('%s jobs', number)
    END;
BEGIN
    RETURN CASE code
        WHEN 'final' THEN format('The job was %s at %s and does not start again.', details ->> 'state', since)
        WHEN 'running' THEN
            format('The job has been running since %s on runner %s.', since, to_json(details ->> 'runner_name'))
        WHEN 'runner_died' THEN CASE
            WHEN details ->> 'until' IS NULL THEN 'The runner of the job is gone, and the job waits for its rescue.'
            ELSE format('The runner of the job died: its lease ran out at %s.', until)
        END
        WHEN 'expired' THEN format('The job expired at %s, and is about to be discarded.', since)
        WHEN 'expires' THEN format('The job is discarded if it has not started by %s.', until)
        WHEN 'parents' THEN format(
            CASE WHEN number = 1 THEN 'The job runs after job %2$s%3$s, which %4$s.'
            ELSE 'The job runs after %1$s that have not ended. One is job %2$s%3$s, which %4$s.' END,
            jobs, details ->> 'parent', coalesce(format(' (%s)', details ->> 'parent_kind'), ''),
            CASE
                WHEN details ->> 'parent_state' IS NULL THEN 'is deleted'
                WHEN (details ->> 'is_refused')::boolean THEN format('was %s and has to be retried', details ->> 'parent_state')
                WHEN details ->> 'parent_state' IN ('cancelled', 'completed', 'discarded')
                    THEN format('was %s a moment ago', details ->> 'parent_state')
                ELSE format('is %s', details ->> 'parent_state')
            END
        )
        WHEN 'pending' THEN 'The job is pending until it is released.'
        WHEN 'scheduled' THEN format('The job is scheduled for %s.', until)
        WHEN 'retryable' THEN
            format('Attempt %s of %s is due at %s.', details ->> 'attempt', details ->> 'max_attempts', until)
        WHEN 'not_promoted' THEN format('The job has been due since %s, and no runner has made it available.', since)
        WHEN 'queue_paused' THEN format(
            'Queue %s has been paused since %s%s%s.', queue, since, coalesce(' by ' || to_json(details ->> 'by'), ''),
            coalesce(': ' || to_json(details ->> 'why'), '')
        )
        WHEN 'queue_held' THEN format('Queue %s is held until %s.', queue, until)
        WHEN 'queue_unworked' THEN format('No live runner works queue %s.', queue)
        WHEN 'kind_unknown' THEN format('No live runner of queue %s has a worker for kind %s.', queue, kind)
        WHEN 'queue_limit' THEN format('Queue %s has %s running, and its limit is %s.', queue, jobs, details ->> 'limit')
        WHEN 'queue_rate' THEN format('Queue %s has used up its rate of %s, and may start a job at %s.', queue, rate, until)
        WHEN 'queue_locked' THEN format(
            '%s has locked the settings of queue %s, %s.', _session_text(details), queue, _open_text(details)
        )
        WHEN 'group_held' THEN format('Group %s is held until %s.', group_name, until)
        WHEN 'group_began' THEN format(
            'Group %s waits for job %s, which began and is %s%s.', group_name, job, details ->> 'state',
            CASE WHEN details ->> 'until' IS NOT NULL THEN format(' until %s', until) ELSE '' END
        )
        WHEN 'group_limit' THEN CASE
            WHEN number = 1 THEN format('Group %s waits for job %s, which runs.', group_name, job)
            ELSE format('Group %s has %s running, and its limit is %s.', group_name, jobs, details ->> 'limit')
        END
        WHEN 'group_rate' THEN
            format('Group %s has used up its rate of %s, and may start a job at %s.', group_name, rate, until)
        WHEN 'group_head' THEN format(
            'Group %s waits for its first job, %s: %s', group_name, job,
            _obstacle_reason(details #>> '{because,code}', details #> '{because,details}')
        )
        WHEN 'slots_busy' THEN format(
            'All %s slots of the %s that works kind %s of queue %s are taken.', details ->> 'slots',
            CASE details ->> 'runners' WHEN '1' THEN 'live runner' ELSE format('%s live runners', details ->> 'runners') END,
            kind, queue
        )
        WHEN 'suspect' THEN CASE
            WHEN (details ->> 'crashes')::integer > 1 THEN format(
                'The job is a suspect after %s crashes of its runners, and starts only on a runner that runs nothing else.',
                details ->> 'crashes'
            )
            ELSE 'The job is a suspect after a crash of its runner, and a runner starts few suspects at a time.'
        END
        WHEN 'behind' THEN CASE
            WHEN details ->> 'group' IS NULL THEN format('The job is behind %s of queue %s.', jobs, queue)
            ELSE format('The job is behind %s of group %s.', jobs, group_name)
        END
        WHEN 'locked' THEN format('%s has locked the job, %s.', _session_text(details), _open_text(details))
        WHEN 'not_taken' THEN
            format('Runners of queue %s have free slots or start later jobs, and none takes this one.', queue)
        WHEN 'next' THEN 'Nothing holds the job up: a runner takes it with its next fetch.'
    END;
END
$$;
COMMENT ON FUNCTION _obstacle_reason IS 'The sentence of an obstacle, from its code and its details.';

CREATE FUNCTION _obstacle_remedy(code text, details jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    queue CONSTANT text := details ->> 'queue';
    schema CONSTANT text := quote_ident(current_schema());
BEGIN
    RETURN CASE code
        WHEN 'running' THEN format('Wait, or: SELECT * FROM %s.cancel_jobs(ARRAY[%L::uuid]);', schema, details ->> 'job')
        WHEN 'runner_died' THEN 'Start a runner: it takes the jobs of dead ones back within seconds.'
        WHEN 'parents' THEN format('See that job: SELECT * FROM %s.why_waiting(%L);', schema, details ->> 'parent')
        WHEN 'pending' THEN format('SELECT * FROM %s.release_jobs(ARRAY[%L::uuid]);', schema, details ->> 'job')
        WHEN 'retryable' THEN format('Wait, or: SELECT * FROM %s.retry_jobs(ARRAY[%L::uuid]);', schema, details ->> 'job')
        WHEN 'not_promoted' THEN CASE
            WHEN (details ->> 'has_runner')::boolean THEN
                format('See which runner has the service: SELECT * FROM %s.maintenance WHERE service = ''promoter'';', schema)
            ELSE 'Start a runner: one of them makes due jobs available.'
        END
        WHEN 'queue_paused' THEN format('SELECT * FROM %s.resume_queue(%L);', schema, queue)
        WHEN 'queue_held' THEN format('Wait, or: SELECT * FROM %s.resume_queue(%L);', schema, queue)
        WHEN 'queue_unworked' THEN format('Start a runner that works queue %s.', to_json(queue))
        WHEN 'kind_unknown' THEN
            format('Start a runner of queue %s that knows kind %s.', to_json(queue), to_json(details ->> 'kind'))
        WHEN 'queue_limit' THEN format(
            'Wait, or raise the limit: SELECT * FROM %s.set_queue(%L, %L);', schema, queue,
            jsonb_build_object('limit', 2 * (details ->> 'limit')::bigint)
        )
        WHEN 'queue_rate' THEN format(
            'Wait, or raise the rate: SELECT * FROM %s.set_queue(%L, %L);', schema, queue,
            jsonb_build_object('rate', jsonb_build_object('count', 2 * (details ->> 'count')::bigint, 'period', details -> 'period'))
        )
        WHEN 'group_held' THEN
            format('Wait, or: SELECT * FROM %s.resume_group(%L, %L);', schema, queue, details ->> 'group')
        WHEN 'group_began' THEN format('See that job: SELECT * FROM %s.why_waiting(%L);', schema, details ->> 'job')
        WHEN 'group_head' THEN _obstacle_remedy(details #>> '{because,code}', details #> '{because,details}')
        WHEN 'slots_busy' THEN 'Wait, start more runners, or give them more slots.'
        WHEN 'not_taken' THEN
            format('Start a runner of queue %s that knows kind %s.', to_json(queue), to_json(details ->> 'kind'))
        ELSE CASE
            WHEN (code IN ('queue_locked', 'locked')) IS NOT TRUE THEN NULL
            WHEN details ->> 'pid' IS NULL THEN
                format('COMMIT PREPARED %L; or ROLLBACK PREPARED %L;', details ->> 'application', details ->> 'application')
            ELSE format('Let its transaction end, or: SELECT pg_terminate_backend(%s);', details ->> 'pid')
        END
    END;
END
$$;
COMMENT ON FUNCTION _obstacle_remedy IS 'The remedy for an obstacle, often a statement. Null: the obstacle ends by itself.';
