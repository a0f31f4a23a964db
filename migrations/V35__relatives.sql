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
COMMENT ON FUNCTION parents_of(uuid) IS
    'The jobs that a job runs after, by their ids, with their outputs. condition: completed, final or failed, as after, after_final and after_failed of insert_job. outcome: the final state of the parent that the job''s edge has. Null: the job still waits for the parent. state: the current state of the parent. kind, state and output are null for a parent that is deleted. Parents are kept, with their outputs, until the job is final.';

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
COMMENT ON FUNCTION children_of(uuid, integer) IS
    'Up to most jobs that run after the job id, in the order of their ids. most null: all of them. condition, outcome: as parents_of.';

CREATE FUNCTION descendants_of(ids uuid[]) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE member AS (
        SELECT g.id FROM unnest(ids) AS g (id)
        UNION
        SELECT e.child FROM member AS m INNER JOIN job_parent AS e ON e.parent = m.id
    )
    SELECT m.id FROM member AS m;
END
$$;
COMMENT ON FUNCTION descendants_of(uuid[]) IS 'The given ids, and the ids of all jobs that run after these jobs, directly or through other jobs.';

CREATE FUNCTION cancel_graph(ids uuid[])
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT c.id, c.kind, c.queue, c.attempt, c.state
    FROM cancel_jobs(ARRAY(SELECT d.id FROM descendants_of(cancel_graph.ids) AS d (id))) AS c;
END;
COMMENT ON FUNCTION cancel_graph(uuid[]) IS
    'Cancels these jobs and all jobs that run after them, directly or not, whatever their conditions, as cancel_jobs does. Returns one row per cancelled job. Parents of these jobs stay as they are: to cancel a whole graph, name its first jobs.';

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
COMMENT ON COLUMN waiting_child.kind IS 'Its kind.';
COMMENT ON COLUMN waiting_child.queue IS 'Its queue.';
COMMENT ON COLUMN waiting_child.created_at IS 'When it was inserted.';
COMMENT ON COLUMN waiting_child.condition IS 'completed, final or failed, as in job_parent.';
COMMENT ON COLUMN waiting_child.parent IS 'The job that it waits for.';
COMMENT ON COLUMN waiting_child.parent_kind IS 'The kind of that job. Null: it is deleted.';
COMMENT ON COLUMN waiting_child.parent_queue IS 'The queue of that job.';
COMMENT ON COLUMN waiting_child.parent_state IS 'The state of that job now.';
