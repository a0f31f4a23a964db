-- How a run ends: completed, or in one of the other ways. Runners and remote workers call the same functions.
--
-- A result counts only for the run that made it (_is_of_run). Without a worker the number of the run alone is the fence, and
-- only of a job that is reserved, which means that a remote worker fetched it.
--
-- The ids come sorted: width_bucket finds a row's place in the arrays. A join with the arrays would leave it to the
-- planner, which knows neither their size nor how many jobs run, to compare each result with each job.

CREATE FUNCTION _is_of_run(held job, worker_id uuid, run integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
-- In a form that job_running cannot serve, so that the ids alone lead to rows.
SELECT (held.state, held.worker, held.run) IS NOT DISTINCT FROM (
    'running'::job_state, coalesce(worker_id, CASE WHEN held.reserved_until IS NOT NULL THEN held.worker END), run
)
$$;
COMMENT ON FUNCTION _is_of_run IS 'The fence: whether this worker (null: a remote one) has the job, in this run.';

CREATE FUNCTION _complete_runs(worker_id uuid, patience text, ids uuid[], runs integer[])
    RETURNS TABLE (state text, ended uuid[], discarded uuid[])
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    is_awaited boolean;
BEGIN
    IF patience IS NOT NULL THEN
        PERFORM set_config('lock_timeout', patience, true);
    END IF;
    WITH completed AS (
        UPDATE job AS j
        SET state = 'completed',
            finalized_at = clock_timestamp(),
            unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, 'running', 'completed')
        WHERE j.id = ANY (ids) AND _is_of_run(j, worker_id, runs[width_bucket(j.id, ids)])
        RETURNING j.id, j.unique_yielded, j.awaited
    )
    SELECT
        'completed',
        coalesce(array_agg(c.id), '{}'),
        CASE WHEN bool_or(c.unique_yielded) THEN _take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) END,
        bool_or(c.awaited)
    INTO state, ended, discarded, is_awaited
    FROM completed AS c;
    IF is_awaited THEN
        PERFORM _wake_releaser();
        -- Reset before a commit that notifies: the limit is not for that wait.
        PERFORM set_config('lock_timeout', '0', true) WHERE patience IS NOT NULL;
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION _complete_runs IS 'Completes runs that have no output and no progress to store. worker_id: the runner that has the jobs. Null: remote workers have them. patience: the lock_timeout for a locked row. Null: the session''s setting. ids: sorted, each once, with their runs. ended: the jobs that completed. discarded: those of them whose key another job claims. The other runs were stale.';

CREATE FUNCTION _delete_runs(worker_id uuid, patience text, ids uuid[], runs integer[])
    RETURNS TABLE (state text, ended uuid[], discarded uuid[])
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    kept record;
BEGIN
    IF patience IS NOT NULL THEN
        PERFORM set_config('lock_timeout', patience, true);
    END IF;
    state := 'completed';
    WITH deleted AS (
        DELETE FROM job AS j
        WHERE j.id = ANY (ids) AND _is_of_run(j, worker_id, runs[width_bucket(j.id, ids)]) AND j.awaited IS NULL
        RETURNING j.id
    )
    SELECT coalesce(array_agg(d.id), '{}') INTO ended FROM deleted AS d;
    -- Each run that is left is stale, or its job has children.
    IF cardinality(ended) < cardinality(ids) THEN
        SELECT c.* INTO kept FROM _complete_runs(worker_id, patience, ids, runs) AS c;
        ended := ended || kept.ended;
        discarded := kept.discarded;
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION _delete_runs IS 'Completes runs and deletes the rows of the jobs. A job with children, waiting or released, is completed as by _complete_runs, and the pruner deletes its row later. The arguments and the result are those of _complete_runs.';

CREATE FUNCTION _retry_delay(attempt integer, backoff jsonb) RETURNS interval
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    factor CONSTANT double precision := coalesce((backoff ->> 'factor')::double precision, 2);
    first CONSTANT double precision := coalesce(_backoff_length(backoff, 'first'), 1);
    longest CONSTANT double precision := coalesce(
        _backoff_length(backoff, 'max_interval'), CASE WHEN factor > 1 THEN greatest(first, 3600) END
    );
    jitter CONSTANT double precision := coalesce(
        (backoff ->> 'jitter')::double precision, CASE WHEN factor > 1 THEN 0.1 ELSE 0 END
    );
    -- By logarithms, since a power can be too large for its type.
    wait CONSTANT double precision := CASE
        WHEN first = 0 THEN 0
        ELSE least(longest, 3155760000, exp(least(ln(first) + ln(factor) * (greatest(attempt, 1) - 1), 22)))
    END;
BEGIN
    -- Where the jitter would pass the longest wait it only shortens it, so that jobs that failed at once come back apart.
    RETURN make_interval(secs => wait * (1 - jitter) + random() * (least(wait * (1 + jitter), longest) - wait * (1 - jitter)));
END
$$;
COMMENT ON FUNCTION _retry_delay IS 'The wait before a retry. attempt: the attempt that failed, counted from 1. backoff: as kind.backoff. Null: 1 s after the first attempt, doubled with each attempt up to an hour. It varies at random by up to a tenth.';

CREATE FUNCTION _finish_runs(
    worker_id uuid, patience text, ids uuid[], runs integer[], outcomes text[], delays interval[], errors text[],
    outputs jsonb[], reports jsonb[], details jsonb[] DEFAULT NULL
) RETURNS TABLE (state text, ended uuid[], discarded uuid[])
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF patience IS NOT NULL THEN
        PERFORM set_config('lock_timeout', patience, true);
    END IF;
    RETURN QUERY
    WITH finished AS (
        UPDATE job AS j
        SET (state, finalized_at, scheduled_at, attempt, crashes, began, expires_at, errors, output, progress, unique_yielded) = (
            SELECT
                d.state,
                CASE WHEN d.state IN ('completed', 'cancelled', 'discarded') THEN clock_timestamp() END,
                -- A job given back has no delay, and keeps its place in the queue.
                CASE
                    WHEN d.state IN ('available', 'retryable', 'scheduled')
                        THEN coalesce(clock_timestamp() + r.delay, j.scheduled_at)
                    ELSE j.scheduled_at
                END,
                CASE WHEN r.outcome IN ('snooze', 'give_back', 'interrupt') THEN j.attempt - 1 ELSE j.attempt END,
                -- A run that ended by itself killed no process.
                CASE WHEN r.outcome IN ('retry', 'snooze') THEN 0 ELSE j.crashes END,
                -- A job in order that is given back from its first run did not begin.
                CASE WHEN r.outcome = 'give_back' AND j.began = j.run THEN NULL ELSE j.began END,
                CASE WHEN r.outcome IN ('retry', 'snooze', 'interrupt') THEN NULL ELSE j.expires_at END,
                CASE
                    WHEN r.error IS NULL THEN j.errors
                    ELSE _with_error(j.errors, j.attempt, clock_timestamp(), r.error, r.details)
                END,
                coalesce(r.output, j.output),
                coalesce(r.report, j.progress),
                j.unique_yielded OR _enters_claim(j.unique_states, 'running', d.state)
            FROM (
                SELECT
                    outcomes[p.place] AS outcome,
                    CASE
                        WHEN delays[p.place] IS NULL AND outcomes[p.place] = 'retry' THEN _retry_delay(
                            j.attempt, (SELECT k.backoff FROM kind AS k WHERE k.name = j.kind)
                        )
                        ELSE delays[p.place]
                    END AS delay,
                    (_finish_runs.errors)[p.place] AS error,
                    details[p.place] AS details,
                    outputs[p.place] AS output,
                    reports[p.place] AS report
                FROM (SELECT width_bucket(j.id, ids) AS place OFFSET 0) AS p
                OFFSET 0
            ) AS r
            CROSS JOIN LATERAL (
                SELECT
                    CASE
                        WHEN r.outcome = 'complete' THEN 'completed'
                        WHEN r.outcome = 'cancel' THEN 'cancelled'
                        WHEN r.outcome = 'discard' THEN 'discarded'
                        WHEN r.outcome = 'retry' AND (j.attempt >= j.max_attempts OR r.details -> 'retryable' = 'false') THEN 'discarded'
                        WHEN r.outcome IN ('give_back', 'interrupt') OR r.delay <= interval '0' THEN 'available'
                        WHEN r.outcome = 'retry' THEN 'retryable'
                        ELSE 'scheduled'
                    END::job_state AS state
                OFFSET 0
            ) AS d
        )
        WHERE j.id = ANY (ids) AND _is_of_run(j, worker_id, runs[width_bucket(j.id, ids)])
        RETURNING
            j.id, j.queue, j.state, outcomes[width_bucket(j.id, ids)] IN ('give_back', 'interrupt') AS is_for_others, j.unique_yielded,
            j.awaited AND j.finalized_at IS NOT NULL AS is_awaited
    ),
    settled AS MATERIALIZED (
        SELECT
            CASE
                WHEN bool_or(f.unique_yielded) THEN _take_claims(array_agg(f.id) FILTER (WHERE f.unique_yielded))
            END AS discarded,
            -- The job of a runner that stops is for another runner to work, at once.
            CASE
                WHEN bool_or(f.is_for_others) THEN _wake_runners(array_agg(DISTINCT f.queue::text) FILTER (WHERE f.is_for_others))
            END,
            CASE WHEN bool_or(f.is_awaited) THEN _wake_releaser() END,
            -- Reset before a commit that notifies: the limit is not for that wait. It is for the locks of triggers.
            CASE
                WHEN patience IS NOT NULL AND bool_or(f.is_for_others OR f.is_awaited)
                    THEN set_config('lock_timeout', '0', true)
            END
        FROM finished AS f
    )
    SELECT f.state::text, array_agg(f.id), s.discarded
    FROM finished AS f
    CROSS JOIN settled AS s
    GROUP BY f.state, s.discarded;
END
$$;
COMMENT ON FUNCTION _finish_runs IS 'Ends runs, each with an outcome: complete, retry, snooze, give_back (it had not started), interrupt (it had), cancel or discard. worker_id, patience, ids, runs, discarded: as _complete_runs. delays: of a retry or a snooze. Null for a retry: the kind''s backoff, else _retry_delay. errors, details: of a retry, cancel or discard. reports: the progress. Returns the jobs whose results counted.';
