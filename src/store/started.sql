-- Of every fetch: starts what was locked (`next`) and counts the attempt. The locked rows come as an array:
-- the planner cannot know how many a LIMIT of slots gives, and joins what it takes for a tenth of the backlog by
-- reading the whole table. By their places in the table, which a lock keeps: that spares a probe of the primary
-- key each. (A job that somebody changed and committed while the scan came by has a place that this statement
-- does not see yet; the next fetch takes it.)
--
-- What a column costs on its way it costs with each job, so what is usual in most jobs (fetch.rs knows it) is not
-- sent: `particulars` come with a job of which anything of them is unusual, and `papers` with one that has any.
started AS (
    UPDATE /* schema */job AS j
    SET state = 'running',
        -- Counted at fetch, so that a crash uses one up. Capped, so that no count stops a queue.
        attempt = least(j.attempt::integer + 1, 32767),
        -- Read once, when the scan is over and no row is changed yet.
        attempted_at = (SELECT clock_timestamp()),
        worker = $4,
        -- The fence: no other run of the job has this number.
        run = j.run % 2147483647 + 1,
        unique_states = CASE WHEN j.until_start AND j.unique_states > 0 THEN 0 ELSE j.unique_states END,
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'available', 'running')
    WHERE j.ctid = ANY (ARRAY(SELECT n.ctid FROM next AS n))
    RETURNING
        j.id, j.attempt, j.run, j.scheduled_at, j.attempted_at, j.args, j.unique_key, j.unique_states,
        CASE
            WHEN j.kind = ($3::text[])[1]
                AND j.queue = ($1::text[])[1]
                AND j.created_at = j.scheduled_at
                AND j.priority = 0
                AND j.max_attempts = 25
                AND NOT j.unique_yielded
                AND NOT j.until_start
                AND j.unique_until IS NULL
                AND j.replaced_by IS NULL
                THEN NULL
            ELSE ROW(
                j.kind, j.queue, j.created_at, j.priority, j.max_attempts,
                j.claims, j.until_start, j.unique_until, j.replaced_by
            )
        END AS particulars,
        CASE
            -- Empty JSON has no more than its length and its kind; a comparison would walk it.
            WHEN pg_column_size(j.meta) <= 8
                AND pg_column_size(j.errors) <= 8
                AND jsonb_typeof(j.errors) = 'array'
                AND j.output IS NULL
                AND j.progress IS NULL
                THEN NULL
            ELSE ROW(j.meta, j.errors, j.output, j.progress)
        END AS papers,
        j.unique_yielded
)
