-- Noting the ends of parents, and releasing or cancelling their children. Runners and maintain() do this maintenance.
--
-- The index job_awaited has the parents that ended and whose children are not told yet. Each statement that ends a parent
-- enters it there, so no end is lost. Each step takes a few parents and children, skips locked rows, and is right
-- with any number of callers at once: an edge of a waiting child changes only while the child's row is locked, and
-- whether it still waits is asked after that lock.

CREATE FUNCTION _link_parents(
    first_parent uuid, most integer, OUT linked integer, OUT settled integer, OUT reached uuid
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
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
    locked := ARRAY(
        SELECT j.id FROM job AS j WHERE j.id = ANY (named) ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
    );
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
        FROM _tell_children(gone, array_fill('completed'::job_state, ARRAY[cardinality(gone)]), NULL, most) AS t;
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
COMMENT ON FUNCTION _link_parents(uuid, integer) IS
    'Marks the parents of new edges (job.awaited), so that their ends are noticed. Looks at the first 200 such parents with ids from first_parent on. Null: from the start. Skips parents that another transaction has locked, and links up to most edges. A deleted parent counts as completed, since only completed jobs are deleted before their end is noted. linked: the number of linked edges. settled: the number of children of deleted parents that were released or cancelled. reached: the first_parent of the next call. Null: the start.';

CREATE FUNCTION _tell_edges(children uuid[], parents uuid[], outcomes job_state[], OUT released integer, OUT cancelled integer)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    locked uuid[];
    busy uuid[];
    doomed record;
    ready uuid[];
    unneeded uuid[];
BEGIN
    locked := ARRAY(
        SELECT j.id
        FROM job AS j
        WHERE j.id = ANY (children) AND j.state = 'pending'
        ORDER BY j.id
        FOR NO KEY UPDATE SKIP LOCKED
    );
    -- From here on each statement sees what others committed before the locks were taken.
    busy := ARRAY(
        SELECT j.id FROM job AS j WHERE j.id = ANY (children) AND j.state = 'pending' AND j.id <> ALL (locked)
    );
    WITH told AS (
        UPDATE job_parent AS e
        SET outcome = t.outcome
        FROM unnest(children, parents, outcomes) AS t (child, parent, outcome)
        WHERE e.child = t.child AND e.parent = t.parent AND e.outcome IS NULL AND e.child <> ALL (busy)
        RETURNING e.child, e.parent, e.condition, e.outcome
    )
    SELECT coalesce(array_agg(d.child), '{}') AS children, array_agg(d.parent) AS parents, array_agg(d.outcome) AS outcomes
    INTO doomed
    FROM (
        SELECT DISTINCT ON (t.child) t.child, t.parent, t.outcome
        FROM told AS t
        WHERE t.condition = 'completed' AND t.outcome <> 'completed' AND t.child = ANY (locked)
        ORDER BY t.child, t.parent
    ) AS d;
    ready := ARRAY(
        SELECT l.id
        FROM unnest(locked) AS l (id)
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
    SELECT count(*) INTO released
    FROM release_jobs(ARRAY(SELECT r.id FROM unnest(ready) AS r (id) WHERE r.id <> ALL (unneeded)));
END
$$;
COMMENT ON FUNCTION _tell_edges(uuid[], uuid[], job_state[]) IS
    'Notes the outcomes in the edges from children to parents, and releases or cancels each child whose outcomes now decide it. The edges of a waiting child that another transaction has locked stay as they are. released, cancelled: the numbers of these children.';

CREATE FUNCTION _tell_children(
    parents uuid[],
    outcomes job_state[],
    after_child uuid,
    most integer,
    OUT released integer,
    OUT cancelled integer,
    OUT seen integer,
    OUT last_parent uuid,
    OUT last_child uuid
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    edges record;
    told record;
BEGIN
    released := 0;
    cancelled := 0;
    SELECT
        array_agg(e.child ORDER BY e.place, e.child) AS children, array_agg(e.parent ORDER BY e.place, e.child) AS parents,
        array_agg(e.outcome ORDER BY e.place, e.child) AS outcomes, count(*) AS seen
    INTO edges
    FROM (
        SELECT c.child, p.id AS parent, p.outcome, p.place
        FROM unnest(parents, outcomes) WITH ORDINALITY AS p (id, outcome, place)
        CROSS JOIN LATERAL (
            SELECT o.child
            FROM job_parent AS o
            WHERE o.parent = p.id AND o.outcome IS NULL AND p.outcome IS NOT NULL
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
        SELECT t.* INTO told FROM _tell_edges(edges.children, edges.parents, edges.outcomes) AS t;
        released := told.released;
        cancelled := told.cancelled;
    EXCEPTION
        -- A trigger of the application can refuse the change of a job. That job must not hold up other children.
        WHEN others THEN
            FOR nth IN 1..seen LOOP
                BEGIN
                    SELECT t.* INTO told
                    FROM _tell_edges(
                        ARRAY[edges.children[nth]], ARRAY[edges.parents[nth]], ARRAY[edges.outcomes[nth]]
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
COMMENT ON FUNCTION _tell_children(uuid[], job_state[], uuid, integer) IS
    'Notes the outcomes of parents in up to most open edges, and releases or cancels their children. after_child: of the first parent, only children with ids after this one. Null: all children. released, cancelled: the numbers of these children. seen: the number of edges. last_parent, last_child: the last of these edges.';

CREATE FUNCTION _move_children(parent uuid, successor uuid, most integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    moved integer;
BEGIN
    IF NOT EXISTS (SELECT FROM job AS j WHERE j.id = successor) THEN
        RETURN NULL;
    END IF;
    -- A child cannot wait for the successor if the successor waits for the child.
    IF EXISTS (
        WITH RECURSIVE before AS (
            SELECT successor AS id
            UNION
            SELECT e.parent FROM before AS b INNER JOIN job_parent AS e ON e.child = b.id AND _is_open_edge(e.outcome)
        )
        SELECT FROM before AS b
        INNER JOIN job_parent AS e ON e.child = b.id AND e.parent = _move_children.parent AND e.outcome IS NULL
    ) THEN
        RETURN NULL;
    END IF;
    WITH chosen AS (
        SELECT e.child
        FROM job_parent AS e
        WHERE e.parent = _move_children.parent AND e.outcome IS NULL
            AND NOT EXISTS (SELECT FROM job_parent AS s WHERE s.child = e.child AND s.parent = successor)
        LIMIT most
    )
    UPDATE job_parent AS e
    SET parent = successor, linked = false
    FROM chosen AS c
    WHERE e.child = c.child AND e.parent = _move_children.parent;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$$;
COMMENT ON FUNCTION _move_children(uuid, uuid, integer) IS
    'Moves up to most open edges from parent, a job that was replaced, to its successor. Returns the number of moved edges. Null: the successor is deleted, or waits for one of the children, and no edge was moved.';

CREATE FUNCTION _release_children(
    first_parent uuid,
    after_child uuid,
    most integer,
    OUT released integer,
    OUT cancelled integer,
    OUT seen integer,
    OUT next_parent uuid,
    OUT next_child uuid
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    ended record;
    moved integer;
    told record;
BEGIN
    SELECT
        array_agg(p.id ORDER BY p.id) AS ids, array_agg(p.state ORDER BY p.id) AS outcomes,
        array_agg(p.replaced_by ORDER BY p.id) AS successors, count(*) AS ended, bool_or(p.replaced_by IS NOT NULL) AS has_replaced
    INTO ended
    FROM (
        SELECT j.id, j.state, CASE WHEN j.state = 'cancelled' THEN j.replaced_by END AS replaced_by
        FROM job AS j
        WHERE j.awaited AND j.finalized_at IS NOT NULL
            AND j.id >= coalesce(first_parent, '00000000-0000-0000-0000-000000000000')
        ORDER BY j.id
        LIMIT 200
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS p;
    released := 0;
    cancelled := 0;
    seen := 0;
    IF ended.ended = 0 THEN
        RETURN;
    END IF;
    IF ended.has_replaced THEN
        FOR place IN 1..ended.ended LOOP
            CONTINUE WHEN ended.successors[place] IS NULL;
            moved := _move_children(ended.ids[place], ended.successors[place], most);
            IF moved IS NOT NULL THEN
                seen := seen + moved;
                -- If all edges fitted into this step, a child of an edge that is left waits for the successor already.
                ended.outcomes[place] := CASE WHEN moved < most THEN 'completed'::job_state END;
            END IF;
        END LOOP;
    END IF;
    SELECT t.* INTO told
    FROM _tell_children(
        ended.ids, ended.outcomes, CASE WHEN ended.ids[1] = first_parent THEN after_child END, most
    ) AS t;
    released := told.released;
    cancelled := told.cancelled;
    seen := seen + told.seen;
    IF told.seen = most THEN
        next_parent := told.last_parent;
        next_child := told.last_child;
    ELSIF ended.ended = 200 THEN
        next_parent := ended.ids[200];
        next_child := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    END IF;
    UPDATE job AS j
    SET awaited = false
    WHERE j.id = ANY (ended.ids)
        AND (SELECT o.child FROM job_parent AS o WHERE o.parent = j.id AND o.outcome IS NULL LIMIT 1) IS NULL;
END
$$;
COMMENT ON FUNCTION _release_children(uuid, uuid, integer) IS
    'Notes the ends of the first 200 final jobs that are marked (job.awaited), with ids from first_parent on, in up to most edges. first_parent null: from the start. after_child: of first_parent itself, only children with ids after this one. Edges to a job that was replaced move to its successor. released, cancelled: the numbers of children that were released and cancelled. seen: the number of edges. next_parent, next_child: the first_parent and after_child of the next call. Null: the start.';

CREATE FUNCTION _release_step(
    most integer,
    INOUT link_from uuid,
    INOUT parent_from uuid,
    INOUT child_from uuid,
    OUT linked integer,
    OUT seen integer,
    OUT released integer,
    OUT cancelled integer
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    step record;
BEGIN
    SELECT l.linked, l.settled, l.reached INTO linked, released, link_from FROM _link_parents(link_from, most) AS l;
    SELECT r.* INTO step FROM _release_children(parent_from, child_from, most) AS r;
    seen := step.seen;
    released := coalesce(released, 0) + step.released;
    cancelled := step.cancelled;
    parent_from := step.next_parent;
    child_from := step.next_child;
END
$$;
COMMENT ON FUNCTION _release_step(integer, uuid, uuid, uuid) IS
    'A step of the releaser: links up to most new edges, and notes the ends of parents in up to most edges. link_from, parent_from, child_from: the position that the previous step returned. Null: the start. linked, seen: the numbers of edges that were linked and looked at. released, cancelled: the numbers of children that were released and cancelled.';

CREATE FUNCTION _check_edges(after_child uuid, most integer, OUT checked integer, OUT last_child uuid, OUT mended bigint)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    children uuid[];
    deleted bigint;
BEGIN
    children := ARRAY(
        WITH RECURSIVE next AS (
            (
                SELECT n.child, 1 AS place
                FROM job_parent AS n
                WHERE n.child > coalesce(after_child, '00000000-0000-0000-0000-000000000000')
                ORDER BY n.child
                LIMIT 1
            )
            UNION ALL
            SELECT f.child, l.place + 1
            FROM next AS l
            CROSS JOIN LATERAL (
                SELECT n.child FROM job_parent AS n WHERE n.child > l.child ORDER BY n.child LIMIT 1
            ) AS f
            WHERE l.place < most
        )
        SELECT n.child FROM next AS n
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
            SELECT n.child, n.parent FROM job_parent AS n WHERE n.child = c.id AND _is_open_edge(n.outcome) AND n.linked OFFSET 0
        ) AS o
        WHERE (SELECT j.awaited FROM job AS j WHERE j.id = o.parent LIMIT 1) IS NOT TRUE
    ) AS o
    WHERE e.child = o.child AND e.parent = o.parent AND e.outcome IS NULL;
    GET DIAGNOSTICS mended = ROW_COUNT;
    mended := mended + deleted;
END
$$;
COMMENT ON FUNCTION _check_edges(uuid, integer) IS
    'Checks the edges of up to most children with ids after after_child. Null: from the start. Deletes edges of deleted children. Marks edges as not linked if their parent is deleted or has lost its mark, so that the releaser links them again. Changes of rows by hand and deletions at completion leave such edges. checked: the number of children. last_child: the last of them. Null: the table was read to its end. mended: the number of edges that were deleted or marked.';

CREATE FUNCTION _needed_parents(ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
BEGIN
    RETURN ARRAY(
        SELECT p.id
        FROM unnest(ids) AS p (id)
        WHERE (
            SELECT e.child
            FROM job_parent AS e
            CROSS JOIN LATERAL (
                SELECT j.id FROM job AS j WHERE j.id = e.child AND j.finalized_at IS NULL LIMIT 1
            ) AS c
            WHERE e.parent = p.id
            LIMIT 1
        ) IS NOT NULL
    );
END
$$;
COMMENT ON FUNCTION _needed_parents(uuid[]) IS
    'The jobs among ids that have a child that is not final. The pruner keeps them, with their outputs, for that child.';
