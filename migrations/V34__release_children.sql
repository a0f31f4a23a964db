-- Noting the ends of parents, and releasing or cancelling their children. Runners and maintain() do this maintenance.
--
-- The index job_awaited has the parents that ended and whose children are not told yet. Each statement that ends a parent
-- enters it there, so no end is lost. Each step takes a few parents and children, skips locked rows, and is right
-- with any number of callers at once: an end is noted only while the rows of the parent and of the
-- child are locked. Whether the child still waits is asked after that lock.
--
-- A replaced parent has no outcome. Its edges move to its successor, also those that are inserted later.

CREATE FUNCTION _link_parents(first_parent uuid, most integer, OUT linked integer, OUT settled integer, OUT reached uuid)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    named uuid[];
    locked uuid[];
    gone uuid[];
BEGIN
    named := ARRAY(
        WITH RECURSIVE next AS (
            (
                SELECT n.parent, 1 AS place
                FROM job_parent AS n
                WHERE NOT n.linked AND n.parent >= coalesce(first_parent, '00000000-0000-0000-0000-000000000000')
                ORDER BY n.parent
                LIMIT 1
            )
            UNION ALL
            SELECT f.parent, l.place + 1
            FROM next AS l
            CROSS JOIN LATERAL (
                SELECT n.parent FROM job_parent AS n WHERE NOT n.linked AND n.parent > l.parent ORDER BY n.parent LIMIT 1
            ) AS f
            WHERE l.place < 200
        )
        SELECT n.parent FROM next AS n
    );
    locked := ARRAY(SELECT j.id FROM job AS j WHERE j.id = ANY (named) ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED);
    UPDATE job AS j SET awaited = true WHERE j.id = ANY (locked) AND j.awaited IS NOT TRUE;
    -- Only a DELETE by hand, or a runner that keeps no completed jobs, deletes a row with an open edge.
    gone := ARRAY(
        SELECT n.id
        FROM unnest(named) AS n (id)
        WHERE n.id <> ALL (locked) AND (SELECT j.id FROM job AS j WHERE j.id = n.id LIMIT 1) IS NULL
    );
    IF cardinality(gone) > 0 THEN
        SELECT t.released + t.cancelled
        INTO settled
        FROM _tell_children(gone, after_child => NULL, most => most) AS t;
    END IF;
    UPDATE job_parent AS e
    SET linked = true
    FROM (
        SELECT n.child, n.parent
        FROM unnest(locked || gone) AS p (id)
        CROSS JOIN LATERAL (
            SELECT u.child, u.parent
            FROM job_parent AS u
            WHERE u.parent = p.id AND NOT u.linked AND (u.outcome IS NOT NULL OR p.id <> ALL (gone))
            LIMIT most
        ) AS n
        LIMIT most
    ) AS n
    WHERE e.child = n.child AND e.parent = n.parent;
    GET DIAGNOSTICS linked = ROW_COUNT;
    reached := CASE WHEN linked = most THEN named[1] WHEN cardinality(named) = 200 THEN named[200] END;
END
$$;
COMMENT ON FUNCTION _link_parents IS 'Marks the parents of new edges (job.awaited), so that their ends are noticed: the first 200 from first_parent on, up to most edges. Skips locked parents. A deleted parent counts as completed, since only such jobs are deleted early. settled: the children of deleted parents that were released or cancelled. reached: the first_parent of the next call. Null: the start.';

CREATE FUNCTION _tell_edges(
    children uuid[], parents uuid[], outcomes job_state[], most_below integer, OUT released integer, OUT cancelled integer
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    below uuid[];
    locked uuid[];
    waiting uuid[];
    noted record;
    doomed record;
    ready uuid[];
    unneeded uuid[];
BEGIN
    -- The children of a job that this call cancels, and their children, are cancelled with it.
    below := ARRAY(
        WITH RECURSIVE below AS (
            SELECT t.child AS id FROM unnest(children, outcomes) AS t (child, outcome) WHERE t.outcome <> 'completed'
            UNION
            SELECT e.child
            FROM below AS b
            CROSS JOIN LATERAL (
                SELECT o.child
                FROM job_parent AS o
                WHERE o.parent = b.id AND o.outcome IS NULL AND o.condition = 'completed'
                OFFSET 0
            ) AS e
        )
        SELECT b.id FROM below AS b LIMIT most_below
    );
    -- A final child too: a retry could make it wait again before its edge is written.
    SELECT coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.id) FILTER (WHERE l.state = 'pending'), '{}')
    INTO locked, waiting
    FROM (
        SELECT j.id, j.state
        FROM job AS j
        WHERE j.id = ANY (children || below) AND (j.state = 'pending' OR j.id = ANY (children))
        ORDER BY j.id
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS l;
    -- From here on each statement sees what others committed before the locks were taken.
    WITH RECURSIVE known AS (
        SELECT t.child, t.parent, t.outcome
        FROM unnest(children, parents, outcomes) AS t (child, parent, outcome)
        WHERE t.child = ANY (locked) OR (SELECT j.id FROM job AS j WHERE j.id = t.child LIMIT 1) IS NULL
        UNION
        SELECT e.child, k.child, 'cancelled'
        FROM known AS k
        -- The job k.child is cancelled for its parent.
        CROSS JOIN LATERAL (
            SELECT FROM job_parent AS f
            WHERE f.child = k.child AND f.parent = k.parent AND f.outcome IS NULL AND f.condition = 'completed'
                AND k.outcome <> 'completed' AND k.child = ANY (waiting)
            LIMIT 1
        ) AS c
        CROSS JOIN LATERAL (
            SELECT o.child
            FROM job_parent AS o
            WHERE o.parent = k.child AND o.outcome IS NULL AND o.condition = 'completed' AND o.child = ANY (waiting)
            OFFSET 0
        ) AS e
    )
    SELECT coalesce(array_agg(k.child), '{}') AS children, array_agg(k.parent) AS parents, array_agg(k.outcome) AS outcomes
    INTO noted
    FROM known AS k;
    WITH told AS (
        UPDATE job_parent AS e
        SET outcome = t.outcome, refused_end = NULL
        FROM unnest(noted.children, noted.parents, noted.outcomes) AS t (child, parent, outcome)
        WHERE e.child = t.child AND e.parent = t.parent AND e.outcome IS NULL
        RETURNING e.child, e.parent, e.condition, e.outcome
    )
    SELECT coalesce(array_agg(d.child), '{}') AS children, array_agg(d.parent) AS parents, array_agg(d.outcome) AS outcomes
    INTO doomed
    FROM (
        SELECT DISTINCT ON (t.child) t.child, t.parent, t.outcome
        FROM told AS t
        WHERE t.condition = 'completed' AND t.outcome <> 'completed' AND t.child = ANY (waiting)
        ORDER BY t.child, t.parent
    ) AS d;
    ready := ARRAY(
        SELECT l.id
        FROM unnest(waiting) AS l (id)
        WHERE l.id <> ALL (doomed.children)
            AND (SELECT o.child FROM job_parent AS o WHERE o.child = l.id AND _is_open_edge(o.outcome) LIMIT 1) IS NULL
    );
    unneeded := ARRAY(
        SELECT r.id
        FROM unnest(ready) AS r (id)
        WHERE (
            SELECT bool_and(o.outcome = 'completed') FROM job_parent AS o WHERE o.child = r.id AND o.condition = 'failed'
        )
    );
    UPDATE job AS j
    SET errors = _with_error(
        j.errors, j.attempt, clock_timestamp(),
        (
            SELECT CASE
                WHEN d.place IS NULL THEN 'cancelled: it runs only if a parent fails, and each of them completed'
                ELSE format(
                    'cancelled: its parent %s%s was %s', doomed.parents[d.place],
                    (SELECT format(' (%s)', p.kind) FROM job AS p WHERE p.id = doomed.parents[d.place]),
                    doomed.outcomes[d.place]
                )
            END
            FROM (SELECT array_position(doomed.children, j.id)) AS d (place)
        )
    )
    WHERE j.id = ANY (doomed.children || unneeded);
    SELECT count(*) INTO cancelled FROM cancel_jobs(doomed.children || unneeded);
    -- After the change, since a parent of one of them can be another.
    UPDATE job_parent AS e
    SET refused_end = (SELECT p.finalized_at FROM job AS p WHERE p.id = e.parent)
    WHERE e.child = ANY (doomed.children || unneeded)
        AND CASE e.condition
            WHEN 'completed' THEN e.outcome <> 'completed'
            WHEN 'failed' THEN e.child = ANY (unneeded)
        END;
    SELECT count(*) INTO released
    FROM release_jobs(ARRAY(SELECT r.id FROM unnest(ready) AS r (id) WHERE r.id <> ALL (unneeded)));
END
$$;
COMMENT ON FUNCTION _tell_edges IS 'Notes the outcomes in the edges from children to parents, and releases or cancels each child whose outcomes now decide it. Also cancels up to most_below jobs below the cancelled children. The edges of a child that another transaction has locked stay as they are. released, cancelled: the numbers of these children.';

CREATE FUNCTION _ancestors_of(ids uuid[], only_open boolean) RETURNS uuid[]
    LANGUAGE sql STABLE
    RETURN ARRAY(
        WITH RECURSIVE before AS (
            SELECT g.id FROM unnest(ids) AS g (id)
            UNION
            SELECT e.parent
            FROM before AS b
            CROSS JOIN LATERAL (
                SELECT o.parent FROM job_parent AS o WHERE o.child = b.id AND (o.outcome IS NULL OR NOT only_open) OFFSET 0
            ) AS e
        )
        SELECT b.id FROM before AS b
    );
COMMENT ON FUNCTION _ancestors_of IS 'These jobs and all that they run after, directly or not. only_open: only those that they wait for.';

CREATE FUNCTION _move_children(parent uuid, most integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    moved integer;
BEGIN
    -- Two callers that move edges at the same time could close a circle that neither of them sees.
    IF NOT pg_try_advisory_xact_lock(hashtext('uniqueue.successors'), to_regclass('job')::oid::integer) THEN
        RETURN most;
    END IF;
    WITH deleted AS (
        DELETE FROM job_parent AS e
        USING (
            SELECT o.child, s.replaced_by
            FROM (
                SELECT n.id AS replaced_by, _ancestors_of(ARRAY[n.id], true) AS before
                FROM job AS p
                JOIN job AS n ON n.id = p.replaced_by
                WHERE p.id = _move_children.parent
                OFFSET 0
            ) AS s
            CROSS JOIN LATERAL (
                SELECT n.child
                FROM job_parent AS n
                -- A child cannot wait for the successor if the successor waits for the child.
                WHERE n.parent = _move_children.parent AND n.outcome IS NULL AND n.child <> ALL (s.before)
                LIMIT most
            ) AS o
        ) AS c
        WHERE e.child = c.child AND e.parent = _move_children.parent
        RETURNING e.child, c.replaced_by, e.condition
    )
    INSERT INTO job_parent AS e (child, parent, linked, condition)
    SELECT d.child, d.replaced_by, false, d.condition FROM deleted AS d
    -- The child waits for the successor already. The stricter condition counts, as in _add_parents.
    ON CONFLICT ON CONSTRAINT job_parent_pkey
    DO UPDATE SET condition = least(e.condition, excluded.condition), outcome = NULL, refused_end = NULL, linked = false;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$$;
COMMENT ON FUNCTION _move_children IS 'Moves up to most open edges from a replaced job, which the caller has locked, to its successor. Edges that would close a circle stay, and all edges stay if the successor is deleted. Returns the number of moved edges. most: possibly another transaction moves edges at the same time.';

CREATE FUNCTION _tell_children(
    parents uuid[], after_child uuid, most integer,
    OUT released integer, OUT cancelled integer, OUT moved integer, OUT seen integer, OUT last_parent uuid,
    OUT last_child uuid
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    replaced uuid;
    edges record;
    told record;
BEGIN
    released := 0;
    cancelled := 0;
    moved := 0;
    seen := 0;
    IF cardinality(parents) = 0 THEN
        RETURN;
    END IF;
    FOR replaced IN SELECT j.id FROM job AS j WHERE j.id = ANY (parents) AND j.replaced_by IS NOT NULL ORDER BY j.id LOOP
        moved := moved + _move_children(replaced, most);
    END LOOP;
    SELECT
        array_agg(e.child ORDER BY e.place, e.child) AS children, array_agg(e.parent ORDER BY e.place, e.child) AS parents,
        array_agg(e.outcome ORDER BY e.place, e.child) AS outcomes, count(*) AS seen
    INTO edges
    FROM (
        SELECT c.child, p.id AS parent, p.outcome, p.place
        FROM (
            SELECT
                g.id, g.place, j.finalized_at, j.replaced_by,
                (SELECT _ancestors_of(ARRAY[n.id], true) FROM job AS n WHERE n.id = j.replaced_by) AS before,
                CASE
                    WHEN j.id IS NULL THEN 'completed'
                    WHEN j.finalized_at IS NULL THEN 'cancelled'
                    ELSE j.state
                END::job_state AS outcome
            FROM unnest(parents) WITH ORDINALITY AS g (id, place)
            LEFT JOIN LATERAL (
                SELECT p.id, p.state, p.finalized_at, p.replaced_by FROM job AS p WHERE p.id = g.id LIMIT 1
            ) AS j ON true
            OFFSET 0
        ) AS p
        CROSS JOIN LATERAL (
            SELECT o.child
            FROM job_parent AS o
            WHERE o.parent = p.id AND o.outcome IS NULL
                AND (o.refused_end = p.finalized_at) IS NOT TRUE
                -- Of a replaced job only the edges that stay, as this statement sees them.
                AND (p.replaced_by IS NULL OR (o.child <> ALL (p.before)) IS NOT TRUE)
                AND o.child > CASE
                    WHEN p.place = 1 AND after_child IS NOT NULL THEN after_child
                    ELSE '00000000-0000-0000-0000-000000000000'
                END
            -- As the index of children is sorted.
            ORDER BY o.outcome, o.child
            LIMIT most
        ) AS c
        LIMIT most
    ) AS e;
    seen := edges.seen;
    IF seen = 0 THEN
        RETURN;
    END IF;
    last_parent := edges.parents[seen];
    last_child := edges.children[seen];
    BEGIN
        SELECT t.* INTO told FROM _tell_edges(edges.children, edges.parents, edges.outcomes, most) AS t;
        released := told.released;
        cancelled := told.cancelled;
    EXCEPTION
        -- A trigger of the application can refuse the change of a job. That job must not hold up other children.
        WHEN others THEN
            FOR nth IN 1..seen LOOP
                BEGIN
                    SELECT t.* INTO told
                    FROM _tell_edges(
                        ARRAY[edges.children[nth]], ARRAY[edges.parents[nth]], ARRAY[edges.outcomes[nth]], 0
                    ) AS t;
                    released := released + told.released;
                    cancelled := cancelled + told.cancelled;
                EXCEPTION
                    WHEN others THEN
                        RAISE WARNING 'cannot release or cancel job %: %', edges.children[nth], SQLERRM;
                END;
            END LOOP;
    END;
END
$$;
COMMENT ON FUNCTION _tell_children IS 'Notes the ends of parents, which the caller has locked, in up to most open edges, and releases or cancels their children. A deleted parent counts as completed, one that has not ended as cancelled. after_child: of the first parent, only children after this one. moved: edges that moved to successors. seen: edges that were looked at, up to last_parent and last_child.';

CREATE FUNCTION _release_step(
    most integer, INOUT link_from uuid, INOUT parent_from uuid, INOUT child_from uuid,
    OUT linked integer, OUT seen integer, OUT released integer, OUT cancelled integer
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    rest integer := most;
    link record;
    ended uuid[];
    told record;
BEGIN
    linked := 0;
    seen := 0;
    released := 0;
    cancelled := 0;
    -- A child that is cancelled is a parent that has ended, and a successor is a new parent: so all levels of a graph.
    LOOP
        SELECT l.* INTO link FROM _link_parents(link_from, rest) AS l;
        ended := ARRAY(
            SELECT j.id
            FROM job AS j
            WHERE j.awaited AND j.finalized_at IS NOT NULL
                AND j.id >= coalesce(parent_from, '00000000-0000-0000-0000-000000000000')
            ORDER BY j.id
            LIMIT 200
            FOR NO KEY UPDATE SKIP LOCKED
        );
        SELECT t.* INTO told FROM _tell_children(ended, CASE WHEN ended[1] = parent_from THEN child_from END, rest) AS t;
        UPDATE job AS j
        SET awaited = false
        WHERE j.id = ANY (ended)
            AND (
                SELECT o.child FROM job_parent AS o
                WHERE o.parent = j.id AND o.outcome IS NULL AND (o.refused_end = j.finalized_at) IS NOT TRUE
                LIMIT 1
            ) IS NULL;
        link_from := link.reached;
        parent_from := CASE WHEN told.seen = rest THEN told.last_parent ELSE ended[200] END;
        child_from := CASE
            WHEN told.seen = rest THEN told.last_child
            WHEN cardinality(ended) = 200 THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff'
        END;
        linked := linked + link.linked;
        seen := seen + told.moved + told.seen;
        released := released + coalesce(link.settled, 0) + told.released;
        cancelled := cancelled + told.cancelled;
        rest := rest - greatest(link.linked, told.moved + told.seen);
        EXIT WHEN rest <= 0 OR link.linked + told.moved + told.cancelled = 0;
    END LOOP;
END
$$;
COMMENT ON FUNCTION _release_step IS 'A step of the releaser: links up to most new edges, and notes the ends of parents in up to most edges, level by level of each graph. link_from, parent_from, child_from: the position that the previous step returned. Null: the start. linked, seen: the numbers of edges that were linked and looked at. released, cancelled: the numbers of children.';

CREATE FUNCTION _check_edges(after_child uuid, most integer, OUT checked integer, OUT last_child uuid, OUT mended bigint)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    children uuid[];
    deleted bigint;
BEGIN
    children := ARRAY(
        WITH RECURSIVE next AS (
            SELECT coalesce(after_child, '00000000-0000-0000-0000-000000000000') AS child, 0 AS place
            UNION ALL
            SELECT f.child, l.place + 1
            FROM next AS l
            CROSS JOIN LATERAL (SELECT n.child FROM job_parent AS n WHERE n.child > l.child ORDER BY n.child LIMIT 1) AS f
            WHERE l.place < most
        )
        SELECT n.child FROM next AS n WHERE n.place > 0
    );
    checked := cardinality(children);
    last_child := CASE WHEN checked = most THEN children[checked] END;
    DELETE FROM job_parent AS e
    WHERE e.child = ANY (ARRAY(
        SELECT c.id
        FROM unnest(children) AS c (id)
        WHERE (SELECT j.id FROM job AS j WHERE j.id = c.id LIMIT 1) IS NULL
    ));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    UPDATE job_parent AS e
    SET linked = false
    FROM (
        SELECT o.child, o.parent
        FROM unnest(children) AS c (id)
        CROSS JOIN LATERAL (
            SELECT n.child, n.parent, n.refused_end
            FROM job_parent AS n
            WHERE n.child = c.id AND _is_open_edge(n.outcome) AND n.linked
            OFFSET 0
        ) AS o
        WHERE (SELECT j.awaited OR j.finalized_at = o.refused_end FROM job AS j WHERE j.id = o.parent LIMIT 1) IS NOT TRUE
    ) AS o
    WHERE e.child = o.child AND e.parent = o.parent AND e.outcome IS NULL;
    GET DIAGNOSTICS mended = ROW_COUNT;
    mended := mended + deleted;
END
$$;
COMMENT ON FUNCTION _check_edges IS 'Checks the edges of up to most children after after_child, which changes by hand and deletions at completion can harm. Deletes edges of deleted children. Marks edges as not linked if their parent is deleted or has lost its mark, so that the releaser links them again. last_child: the last one. Null: the table was read to its end. mended: the number of edges that were deleted or marked.';
