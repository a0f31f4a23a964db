-- Inserting jobs that run after others, with the edges between them.
--
-- A child is pending until its parents have ended. An edge names the child, the parent, and the outcome of the parent once
-- it is known. Releasing children is V34__release_children.sql.
--
-- The insert marks (job.awaited) the parents that it inserts together with the child, so that their ends are noticed. It
-- does not change an earlier parent: that row would be locked until the transaction of the child ends, and the parent could
-- neither start nor end. Its edge is not linked. After the commit the releaser marks the parent, or finds that it has ended.

CREATE FUNCTION _refuse_after(place integer, problem text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN _refuse(coalesce('job ' || (place - 1) || ': ', '') || 'invalid after: ' || problem);
COMMENT ON FUNCTION _refuse_after IS 'Raises error 22023 for the parents of a job. place: its place in the batch, from 1. Null: no batch.';

CREATE FUNCTION _check_parents(parents uuid[], children integer[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    missing record;
BEGIN
    -- The lock blocks only a deletion. The parents can start and end meanwhile.
    PERFORM FROM job AS j WHERE j.id = ANY (parents) ORDER BY j.id FOR KEY SHARE;
    SELECT m.id, m.child
    INTO missing
    FROM unnest(parents, children) AS m (id, child)
    LEFT JOIN job AS j ON j.id = m.id
    WHERE j.id IS NULL
    ORDER BY m.child
    LIMIT 1;
    IF FOUND THEN
        RAISE foreign_key_violation USING
            MESSAGE = coalesce('job ' || (missing.child - 1) || ': ', '') || format('invalid after: there is no job %s', missing.id),
            DETAIL = format('{"parent": "%s"}', missing.id),
            HINT = 'A parent is a job of the same batch, or a job in the table. If completed jobs are not kept, insert parent and child in one call.',
            SCHEMA = current_schema(), TABLE = 'job_parent', CONSTRAINT = 'job_parent_parent';
    END IF;
END
$$;
COMMENT ON FUNCTION _check_parents IS 'Locks the jobs parents against deletion until the transaction ends. Error 23503 if there is no job with one of these ids. children: for each parent the place of its child, which the error names. Runs with the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';

CREATE FUNCTION _add_parents(children uuid[], parents uuid[], conditions text[], fresh uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
BEGIN
    -- A child can name a parent twice, also by two duplicates of one holder. Then the stricter condition counts.
    INSERT INTO job_parent (child, parent, condition, linked)
    SELECT e.child, e.parent, min(e.condition COLLATE "C"), e.parent IN (SELECT f.id FROM unnest(fresh) AS f (id))
    FROM unnest(children, parents, conditions) AS e (child, parent, condition)
    GROUP BY e.child, e.parent
    ON CONFLICT ON CONSTRAINT job_parent_pkey DO NOTHING;
    UPDATE job AS j
    SET awaited = true
    WHERE j.id = ANY (ARRAY(
        SELECT DISTINCT p.id
        FROM unnest(parents) AS p (id)
        WHERE p.id IN (SELECT f.id FROM unnest(fresh) AS f (id))
    ));
    -- A fresh parent has ended if a later job of the batch replaced it.
    IF EXISTS (
        SELECT FROM unnest(parents) AS p (id)
        WHERE p.id NOT IN (SELECT f.id FROM unnest(fresh) AS f (id))
            OR EXISTS (SELECT FROM job AS j WHERE j.id = p.id AND j.finalized_at IS NOT NULL)
    ) THEN
        PERFORM _wake_releaser();
    END IF;
END
$$;
COMMENT ON FUNCTION _add_parents IS 'Inserts edges from children, which the transaction has inserted, to parents, with conditions. fresh: the jobs that the transaction has just inserted, which no other transaction can see. Runs with the rights of the schema''s owner, so that roles that insert need no rights on job_parent.';

CREATE FUNCTION _insert_graph(
    jobs new_job[], one_by_one boolean, max_wait interval, children integer[], places integer[], parents uuid[],
    conditions text[]
) RETURNS SETOF insert_answer
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    -- Jobs that exist before the insert. An insert that is sent again adds no parent.
    known CONSTANT uuid[] := ARRAY(
        SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(SELECT u.id FROM unnest(jobs) AS u WHERE u.may_exist))
    );
    answers insert_answer[];
    answer insert_answer;
    -- For each place the id of the new job or of the holder, and whether the job is new.
    ids uuid[] := ARRAY(SELECT u.id FROM unnest(jobs) AS u ORDER BY u.place);
    are_new boolean[] := array_fill(true, ARRAY[cardinality(jobs)]);
    edges record;
    own_predecessor record;
BEGIN
    PERFORM _refuse_after(
        CASE WHEN cardinality(jobs) > 1 THEN e.child END,
        format('must name an earlier job of the batch: %s', coalesce((e.place - 1)::text, e.id::text))
    )
    FROM (
        SELECT e.child, e.place, e.id
        FROM unnest(children, places, parents) AS e (child, place, id)
        LEFT JOIN (SELECT u.id, min(u.place) AS place FROM unnest(jobs) AS u WHERE u.may_exist GROUP BY u.id) AS g ON g.id = e.id
        WHERE coalesce(e.place, g.place, 0) NOT BETWEEN 0 AND e.child - 1
        ORDER BY e.child
        LIMIT 1
    ) AS e;
    answers := ARRAY(SELECT a FROM _insert_batch(jobs, one_by_one, false, max_wait, NULL) AS a);
    IF (answers[1]).outcome NOT IN ('busy', 'rejected') THEN
        FOREACH answer IN ARRAY answers LOOP
            IF answer.place IS NOT NULL THEN
                ids[answer.place] := coalesce(answer.id, ids[answer.place]);
                are_new[answer.place] := answer.outcome = 'inserted';
            END IF;
        END LOOP;
        SELECT
            array_agg(w.child) AS children, array_agg(w.parent) AS parents, array_agg(w.condition) AS conditions,
            array_agg(w.place) AS child_places,
            array_agg(w.parent) FILTER (WHERE NOT w.is_fresh) AS others,
            array_agg(w.place) FILTER (WHERE NOT w.is_fresh) AS places,
            min(w.place) FILTER (WHERE w.child = w.parent) AS own_parent
        INTO edges
        FROM (
            SELECT
                ids[e.child] AS child, p.id AS parent, e.condition, e.child AS place,
                coalesce(are_new[e.place], false) AND p.id NOT IN (SELECT k.id FROM unnest(known) AS k (id)) AS is_fresh
            FROM unnest(children, places, parents, conditions) AS e (child, place, id, condition)
            CROSS JOIN LATERAL (SELECT coalesce(ids[e.place], e.id)) AS p (id)
            WHERE are_new[e.child] AND ids[e.child] NOT IN (SELECT k.id FROM unnest(known) AS k (id))
        ) AS w;
        IF edges.own_parent IS NOT NULL THEN
            PERFORM _refuse_after(edges.own_parent, 'a parent has the unique key of the job, and so is the same job');
        ELSIF edges.children IS NOT NULL THEN
            WITH RECURSIVE successor AS (
                SELECT e.place, e.child, e.parent, p.replaced_by AS id
                FROM unnest(edges.child_places, edges.children, edges.parents) AS e (place, child, parent)
                INNER JOIN job AS p ON p.id = e.parent AND p.replaced_by IS NOT NULL
                UNION
                SELECT s.place, s.child, s.parent, p.replaced_by
                FROM successor AS s
                INNER JOIN job AS p ON p.id = s.id AND p.replaced_by IS NOT NULL
            )
            SELECT s.place, s.parent INTO own_predecessor FROM successor AS s WHERE s.id = s.child ORDER BY s.place LIMIT 1;
            IF FOUND THEN
                PERFORM _refuse_after(
                    CASE WHEN cardinality(jobs) > 1 THEN own_predecessor.place END,
                    format('the job would replace its own parent %s', own_predecessor.parent)
                );
            ELSIF edges.others IS NOT NULL THEN
                PERFORM _check_parents(edges.others, CASE WHEN cardinality(jobs) > 1 THEN edges.places END);
            END IF;
            PERFORM _add_parents(
                edges.children, edges.parents, edges.conditions,
                ARRAY(
                    SELECT n.id
                    FROM unnest(ids, are_new) AS n (id, is_new)
                    WHERE n.is_new AND n.id NOT IN (SELECT k.id FROM unnest(known) AS k (id))
                )
            );
        END IF;
    END IF;
    RETURN QUERY SELECT a.* FROM unnest(answers) AS a;
END
$$;
COMMENT ON FUNCTION _insert_graph IS 'Inserts a batch as _insert_batch does, and edges from the pending children to their parents, one for each element of children, places, parents and conditions. children, places: places in the batch. parents: the id, where places is null. A duplicate as a parent means its holder, and as a child gets no edge. Error 22023: the parent is not earlier, or replaced by the child. Error 23503: no parent.';

CREATE FUNCTION _read_parents(document jsonb, place integer)
RETURNS TABLE (child integer, parent_place integer, parent uuid, condition text)
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    member text;
    named jsonb;
BEGIN
    FOREACH member IN ARRAY '{after, after_failed, after_final}'::text[] LOOP
        named := nullif(document -> member, 'null');
        CONTINUE WHEN named IS NULL;
        IF jsonb_typeof(named) <> 'array' THEN
            PERFORM _refuse(format('invalid %s: must be an array of indexes and ids: %s', member, left(named::text, 80)));
        END IF;
        child := place;
        condition := CASE member WHEN 'after' THEN 'completed' ELSE split_part(member, '_', 2) END;
        FOR named IN SELECT n.value FROM jsonb_array_elements(named) AS n LOOP
            parent_place := NULL;
            parent := NULL;
            IF jsonb_typeof(named) = 'number' AND _is_whole(named, 0, 2147483646) THEN
                parent_place := named::integer + 1;
                PERFORM _refuse(format('invalid %s: must name an earlier job of the batch: %s', member, named))
                WHERE parent_place >= place;
            ELSIF jsonb_typeof(named) = 'string'
                AND (named #>> '{}') COLLATE "C" ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$'
            THEN
                parent := (named #>> '{}')::uuid;
            ELSE
                PERFORM _refuse(format('invalid %s: must be indexes and ids: %s', member, left(named::text, 80)));
            END IF;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION _read_parents IS 'The parents that an object of insert_jobs names: places in the batch or ids. Error 22023: an invalid member.';

CREATE FUNCTION _insert_after(
    given new_job, max_wait interval, pending boolean, after uuid[], after_final uuid[], after_failed uuid[]
) RETURNS insert_answer
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    parents CONSTANT uuid[] := coalesce(after, '{}') || coalesce(after_final, '{}') || coalesce(after_failed, '{}');
    answers insert_answer[];
BEGIN
    PERFORM _refuse(CASE
        WHEN pending THEN 'invalid pending: not together with after'
        WHEN array_position(parents, NULL) IS NOT NULL THEN 'invalid after: must not hold null'
    END);
    answers := ARRAY(
        SELECT a
        FROM _insert_graph(
            ARRAY[given], true, max_wait,
            array_fill(1, ARRAY[cardinality(parents)]), array_fill(NULL::integer, ARRAY[cardinality(parents)]), parents,
            array_fill('completed'::text, ARRAY[coalesce(cardinality(after), 0)])
                || array_fill('final'::text, ARRAY[coalesce(cardinality(after_final), 0)])
                || array_fill('failed'::text, ARRAY[coalesce(cardinality(after_failed), 0)])
        ) AS a
    );
    RETURN answers[1];
END
$$;
COMMENT ON FUNCTION _insert_after IS 'Inserts a job with the parents after, after_final and after_failed of insert_job.';
