-- Parents and children of jobs, for operators, and for children that read the outputs of their parents.

CREATE FUNCTION parents_of(id uuid)
RETURNS TABLE (id uuid, kind text, state text, condition text, outcome text, output jsonb)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT e.parent, p.kind::text, p.state::text, e.condition, e.outcome::text, p.output
    FROM job_parent AS e
    LEFT JOIN job AS p ON p.id = e.parent
    WHERE e.child = parents_of.id
    ORDER BY e.parent;
END;
COMMENT ON FUNCTION parents_of IS 'The jobs that a job runs after, by their ids, with their outputs. condition: completed, final or failed, as after, after_final and after_failed of insert_job. outcome: the state in which the parent ended. Null: the job still waits for it. kind, state and output are null for a deleted parent. Parents are kept, with their outputs, until the job is final.';

CREATE FUNCTION children_of(id uuid, most integer DEFAULT 100)
RETURNS TABLE (id uuid, kind text, queue text, state text, condition text, outcome text)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT e.child, c.kind::text, c.queue::text, c.state::text, e.condition, e.outcome::text
    FROM (
        SELECT r.child, r.condition, r.outcome
        FROM job_parent AS r
        WHERE r.parent = children_of.id
        ORDER BY r.outcome, r.child
        LIMIT children_of.most
    ) AS e
    INNER JOIN job AS c ON c.id = e.child
    ORDER BY e.child;
END;
COMMENT ON FUNCTION children_of IS 'Up to `most` jobs (null: all) that run after the job id, by their ids. Otherwise as parents_of.';

CREATE FUNCTION descendants_of(ids uuid[]) RETURNS SETOF uuid
    LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH RECURSIVE member AS (
        SELECT g.id FROM unnest(descendants_of.ids) AS g (id)
        UNION
        SELECT e.child
        FROM member AS m
        CROSS JOIN LATERAL (SELECT c.child FROM job_parent AS c WHERE c.parent = m.id OFFSET 0) AS e
    )
    SELECT m.id FROM member AS m;
END;
COMMENT ON FUNCTION descendants_of IS 'The given ids, and the ids of all jobs that run after these jobs, directly or through other jobs.';

CREATE FUNCTION cancel_graph(ids uuid[])
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT c.id, c.kind, c.queue, c.attempt, c.state
    FROM cancel_jobs(ARRAY(SELECT d.id FROM descendants_of(cancel_graph.ids) AS d (id))) AS c;
END;
COMMENT ON FUNCTION cancel_graph IS 'Cancels these jobs and all jobs that run after them, directly or not, whatever their conditions, as cancel_jobs does. Returns one row per cancelled job. Parents of these jobs stay as they are: to cancel a whole graph, name its first jobs.';

CREATE FUNCTION retry_graph(id uuid, dry_run boolean DEFAULT false)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text, refused boolean, holder uuid)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH failed AS MATERIALIZED (
        SELECT coalesce(array_agg(j.id), '{}') AS ids
        FROM unnest(_ancestors_of(ARRAY(SELECT d.id FROM descendants_of(ARRAY[retry_graph.id]) AS d (id)), false)) AS m (id)
        CROSS JOIN LATERAL (
            SELECT j.id FROM job AS j
            WHERE j.id = m.id AND j.state IN ('cancelled', 'discarded') AND j.replaced_by IS NULL
            LIMIT 1
        ) AS j
        -- Not if it was cancelled because of a parent: the retry of the parent reopens it.
        WHERE (
            SELECT e.parent
            FROM job_parent AS e
            INNER JOIN job AS p ON p.id = e.parent
            WHERE e.child = j.id AND e.outcome IS NOT NULL AND e.refused_end IS NOT NULL
            LIMIT 1
        ) IS NULL
    ),
    planned AS MATERIALIZED (SELECT f.ids || _cancelled_below(f.ids) AS ids FROM failed AS f WHERE retry_graph.dry_run)
    SELECT
        j.id, j.kind::text AS kind, j.queue::text AS queue, j.attempt::smallint AS attempt,
        CASE WHEN _unmet_parents(j.id, p.ids) IS NULL THEN 'available' ELSE 'pending' END AS state, false AS refused,
        NULL::uuid AS holder
    FROM planned AS p
    INNER JOIN job AS j ON j.id = ANY (p.ids)
    UNION ALL
    SELECT r.id, r.kind, r.queue, r.attempt, r.state, r.refused, r.holder
    FROM failed AS f
    CROSS JOIN LATERAL retry_jobs(f.ids, '{cancelled, discarded}') AS r
    -- A condition that no row decides: a dry run does not call the function, so a read-only transaction can make one.
    WHERE NOT retry_graph.dry_run;
END;
COMMENT ON FUNCTION retry_graph IS 'Resumes a failed graph: the job, all jobs that run after it, and all jobs that these run after. Retries those that were discarded or cancelled, as retry_jobs does, so that the jobs that were cancelled because of them wait again. Completed jobs stay. dry_run: changes nothing, and looks for no holders of keys. Returns one row per job, with its new state, as retry_jobs does.';

CREATE VIEW waiting_child AS
SELECT
    e.child AS id, c.kind::text AS kind, c.queue::text AS queue, c.created_at, e.condition,
    e.parent, p.kind::text AS parent_kind, p.queue::text AS parent_queue, p.state::text AS parent_state
FROM job_parent AS e
INNER JOIN job AS c ON c.id = e.child AND c.state = 'pending'
LEFT JOIN job AS p ON p.id = e.parent
WHERE _is_open_edge(e.outcome);
COMMENT ON VIEW waiting_child IS 'One row per pending job and parent that it still waits for.';
COMMENT ON COLUMN waiting_child.id IS 'The job that waits.';
COMMENT ON COLUMN waiting_child.condition IS 'completed, final or failed, as in job_parent.';
COMMENT ON COLUMN waiting_child.parent IS 'The job that it waits for.';
COMMENT ON COLUMN waiting_child.parent_kind IS 'The kind of that job. Null: it is deleted.';
COMMENT ON COLUMN waiting_child.parent_queue IS 'The queue of that job.';
COMMENT ON COLUMN waiting_child.parent_state IS 'The state of that job now.';
