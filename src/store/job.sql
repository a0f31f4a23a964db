-- The columns of the job j, as row.rs reads them. What a column costs on its way it costs with each job, so what is
-- usual in most jobs is not sent: `runs` come with a job that has been in a worker's hands or is over,
-- `particulars` with one of which anything of them is unusual, `papers` with one that has any.
j.id, j.kind, j.queue, j.state::text AS state, j.created_at, j.scheduled_at, j.args, j.unique_key, j.unique_states,
CASE
    WHEN j.attempt = 0 AND j.attempted_at IS NULL AND j.finalized_at IS NULL AND j.worker IS NULL THEN NULL
    ELSE ROW(j.attempt, j.attempted_at, j.finalized_at, j.worker)
END AS runs,
CASE
    WHEN j.priority = 0
        AND j.max_attempts = 25
        AND NOT j.unique_yielded
        AND NOT j.until_start
        AND j.unique_until IS NULL
        AND j.replaced_by IS NULL
        THEN NULL
    ELSE ROW(j.priority, j.max_attempts, j.claims, j.until_start, j.unique_until, j.replaced_by)
END AS particulars,
/* papers */NULL::record AS papers
