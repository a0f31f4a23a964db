-- Which jobs of groups a fetch takes.

CREATE FUNCTION _next_group(queue_name text, level smallint, after_key text, except_ids uuid[]) RETURNS TABLE (
    group_key text, id uuid, kind text, crashes smallint, group_limit smallint, in_order boolean, scheduled_at timestamptz
)
    LANGUAGE sql STABLE ROWS 1
-- A function with settings cannot be inlined. Inlined, its scan stops when the calling statement has enough rows.
BEGIN ATOMIC
    SELECT
        j.group_key::text COLLATE "C", j.id, j.kind::text, j.crashes::smallint, j.group_limit::smallint, j.in_order,
        j.scheduled_at
    FROM job AS j
    WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available' AND j.priority = level
        AND j.group_key > after_key COLLATE "C" AND j.id <> ALL (except_ids)
        AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
    ORDER BY j.group_key, j.scheduled_at, j.id
    LIMIT 1;
END;
COMMENT ON FUNCTION _next_group IS 'The first available job of the group with the first key after after_key, at this priority of a queue.';

CREATE FUNCTION _group_ring(
    queue_name text, level smallint, after_group text, visits integer, freed_groups text[], except_ids uuid[]
) RETURNS TABLE (
    group_key text, id uuid, kind text, crashes smallint, group_limit smallint, in_order boolean, scheduled_at timestamptz,
    part integer
)
    LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
    WITH RECURSIVE onward AS (
        SELECT n.* FROM _next_group(queue_name, level, after_group, except_ids) AS n
        UNION ALL
        SELECT n.* FROM onward AS o CROSS JOIN LATERAL _next_group(queue_name, level, o.group_key, except_ids) AS n
    ),
    from_start AS (
        SELECT n.*
        FROM _next_group(queue_name, level, '', except_ids) AS n
        WHERE n.group_key <= after_group COLLATE "C"
        UNION ALL
        SELECT n.*
        FROM from_start AS s
        CROSS JOIN LATERAL _next_group(queue_name, level, s.group_key, except_ids) AS n
        WHERE n.group_key <= after_group COLLATE "C"
    ),
    ring AS (
        SELECT o.*, 1 AS part FROM onward AS o
        UNION ALL
        SELECT s.*, 2 AS part FROM from_start AS s
        LIMIT visits
    )
    SELECT r.group_key, r.id, r.kind, r.crashes, r.group_limit, r.in_order, r.scheduled_at, r.part FROM ring AS r
    UNION ALL
    SELECT n.*, 3 AS part
    FROM unnest(freed_groups) AS g (name)
    CROSS JOIN LATERAL (
        SELECT
            j.group_key::text COLLATE "C", j.id, j.kind::text, j.crashes::smallint, j.group_limit::smallint, j.in_order,
            j.scheduled_at
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available' AND j.priority = level
            AND j.group_key = g.name COLLATE "C" AND j.id <> ALL (except_ids)
            AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
        ORDER BY j.scheduled_at, j.id
        LIMIT 1
    ) AS n
    WHERE g.name COLLATE "C" NOT IN (SELECT r.group_key FROM ring AS r);
END;
COMMENT ON FUNCTION _group_ring IS 'The groups of a queue that have available jobs at this priority, each with its first job. Reads at most visits groups in the order of their keys: first those after after_group (part 1), then those from the first key on (part 2). The freed groups that are not among them follow (part 3).';

CREATE TYPE group_choice AS (
    id uuid,
    group_key text COLLATE "C",
    priority smallint,
    scheduled_at timestamptz,
    round integer,
    place integer,
    is_suspect boolean,
    counted integer,
    most integer,
    is_blocked boolean
);
COMMENT ON TYPE group_choice IS 'A job of a group that a fetch chose. round: 1 for the first job of its group, 2 for the second, and so on. place: the position of its group among the visited ones. counted: how many jobs of the group run or are chosen, including this one. most: the number that the group''s tokens allow. Null: any number. is_blocked: no further job of the group may be chosen.';

CREATE TYPE group_search AS (
    queue text,
    kinds text[],
    wanted integer,
    suspects integer,
    is_alone boolean,
    except_ids uuid[],
    visits integer,
    after_group text COLLATE "C",
    freed_groups text[],
    are_rated boolean,
    chosen group_choice[],
    turn_levels smallint[],
    turn_places integer[],
    all_visits integer,
    ran_out_part integer,
    ran_out_at text COLLATE "C",
    suspects_taken integer,
    suspects_seen integer,
    alone_crashes smallint,
    next_at timestamptz
);
COMMENT ON TYPE group_search IS 'The search of a fetch among the groups of a queue. The first columns are the arguments of _jobs_of_groups. are_rated: whether a group of the queue can be held or without a token. turn_levels, turn_places: for each priority, where the jobs without a group have their turn. ran_out_part, ran_out_at: the group at which the visits ran out, and its part of the ring.';

CREATE FUNCTION _choose_heads(search group_search, settings queue, level smallint, above smallint[]) RETURNS group_search
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    head record;
    kinds CONSTANT text[] := search.kinds;
    are_rated CONSTANT boolean := search.are_rated;
    chosen group_choice[] := search.chosen;
    place integer := 0;
    visited integer := 0;
    last_part integer;
    last_key text COLLATE "C";
    has_turn boolean := false;
    tokens integer;
    taken integer;
BEGIN
    FOR head IN
        SELECT
            r.*, t.rate_full_at, t.held_until, h.running::integer AS running, h.has_begun IS TRUE AS has_begun,
            CASE
                WHEN h.has_begun THEN h.is_available
                ELSE (r.kind = ANY (kinds)) IS NOT FALSE AND (h.running < least(
                    CASE WHEN r.in_order THEN 1 END, r.group_limit, settings.max_per_group
                )) IS NOT FALSE
            END AS has_place
        FROM _group_ring(
            search.queue, level, search.after_group, search.visits, search.freed_groups, search.except_ids
        ) AS r
        LEFT JOIN LATERAL (
            SELECT g.rate_full_at, g.held_until
            FROM queue_group AS g
            WHERE are_rated AND g.queue = search.queue AND g.group_key = r.group_key
            -- So that each is looked up, and not compared with all groups of the queue.
            LIMIT 1
        ) AS t ON true
        CROSS JOIN LATERAL (
            SELECT
                count(*) FILTER (WHERE k.state = 'running') AS running,
                bool_or(k.state <> 'running') AS has_begun,
                bool_or(k.state = 'available') AS is_available
            FROM job AS k
            WHERE k.queue = search.queue AND k.group_key = r.group_key AND k.group_key IS NOT NULL
                AND k.finalized_at IS NULL AND (k.state = 'running' OR k.began IS NOT NULL)
        ) AS h
    LOOP
        IF head.part < 3 THEN
            visited := visited + 1;
            IF visited = search.visits THEN
                last_part := head.part;
                last_key := head.group_key;
            END IF;
        END IF;
        -- Most of many groups are blocked: their limit is reached, there is no worker for the kind of the first job, or the
        -- job that began waits for its retry.
        CONTINUE WHEN NOT are_rated AND NOT head.has_place;
        place := place + 1;
        IF head.part > 1 AND NOT has_turn THEN
            has_turn := true;
            search.turn_levels := search.turn_levels || level;
            search.turn_places := search.turn_places || place;
            place := place + 1;
        END IF;
        tokens := NULL;
        IF are_rated THEN
            tokens := CASE
                WHEN head.held_until > clock_timestamp() THEN 0
                ELSE _rate_tokens(
                    settings.group_rate_count, settings.group_rate_period, settings.group_rate_burst, head.rate_full_at,
                    clock_timestamp()
                )
            END;
            IF tokens = 0 THEN
                search.next_at := least(search.next_at, greatest(head.held_until, _next_token_at(
                    settings.group_rate_count, settings.group_rate_period, settings.group_rate_burst, head.rate_full_at
                )));
                CONTINUE;
            END IF;
        END IF;
        CONTINUE WHEN NOT head.has_place;
        IF head.has_begun THEN
            -- The job that began is first, wherever its priority would place it.
            SELECT j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
            INTO head.id, head.kind, head.crashes, head.group_limit, head.in_order, head.scheduled_at
            FROM job AS j
            WHERE j.queue = search.queue AND j.group_key = head.group_key AND j.group_key IS NOT NULL
                AND j.finalized_at IS NULL AND j.began IS NOT NULL AND j.state = 'available'
                AND j.id <> ALL (search.except_ids)
            ORDER BY j.id
            LIMIT 1;
            CONTINUE WHEN NOT FOUND OR head.id IN (SELECT c.id FROM unnest(chosen) AS c);
        ELSIF cardinality(above) > 0 AND EXISTS (
            -- A job of the group that waits at a higher priority and was not chosen blocks its group.
            SELECT FROM unnest(above) AS a (priority)
            CROSS JOIN LATERAL (
                SELECT j.id
                FROM job AS j
                WHERE j.queue = search.queue AND j.group_key IS NOT NULL AND j.state = 'available'
                    AND j.priority = a.priority AND j.group_key = head.group_key COLLATE "C"
                    AND j.id <> ALL (ARRAY(SELECT c.id FROM unnest(chosen) AS c) || search.except_ids)
                    AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
                ORDER BY j.scheduled_at, j.id
                LIMIT 1
            ) AS w
        ) THEN
            CONTINUE;
        END IF;
        taken := (SELECT count(*) FROM unnest(chosen) AS c WHERE cardinality(above) > 0 AND c.group_key = head.group_key);
        CONTINUE WHEN (head.kind <> ALL (kinds)) IS TRUE OR head.running + taken >= least(
            CASE WHEN head.in_order THEN 1 END, head.group_limit, settings.max_per_group, head.running + tokens
        );
        IF head.crashes > 0 THEN
            search.suspects_seen := search.suspects_seen + (head.crashes = 1)::integer;
            search.alone_crashes := least(search.alone_crashes, CASE WHEN head.crashes > 1 THEN head.crashes END);
            CONTINUE WHEN (head.crashes > 1) <> search.is_alone OR search.suspects_taken >= search.suspects;
            search.suspects_taken := search.suspects_taken + 1;
        END IF;
        CONTINUE WHEN search.is_alone AND head.crashes < 2;
        chosen := chosen || ROW(
            head.id, head.group_key, level, head.scheduled_at, 1, place, head.crashes > 0, head.running + taken + 1,
            head.running + tokens, head.has_begun
        )::group_choice;
        EXIT WHEN cardinality(chosen) >= search.wanted;
    END LOOP;
    search.all_visits := search.all_visits + visited;
    -- The next fetch goes on where this level ran out of visits; of several levels, at the one that came least far.
    IF last_part IS NOT NULL AND (head.part = 3 OR cardinality(chosen) < search.wanted)
        AND (search.ran_out_part IS NULL OR (last_part, last_key) < (search.ran_out_part, search.ran_out_at))
    THEN
        search.ran_out_part := last_part;
        search.ran_out_at := last_key;
    END IF;
    IF NOT has_turn THEN
        place := place + 1;
        search.turn_levels := search.turn_levels || level;
        search.turn_places := search.turn_places || place;
    END IF;
    search.chosen := chosen;
    RETURN search;
END
$$;
COMMENT ON FUNCTION _choose_heads IS 'Chooses the first job of each group that has available jobs at this priority and may start one. above: the priorities that the search has visited. For each group it reads one entry of job_group and the group''s entries of job_group_held. If groups of the queue have a rate or are held, it also reads the row of queue_group.';

CREATE FUNCTION _choose_more(search group_search, settings queue, level smallint) RETURNS group_search
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    chosen group_choice[] := search.chosen;
    more record;
    spot integer;
    missing CONSTANT integer := search.wanted - cardinality(chosen);
    heads CONSTANT integer := (SELECT count(*) FROM unnest(chosen) AS c WHERE c.priority = level);
BEGIN
    IF missing <= 0 OR heads = 0 THEN
        RETURN search;
    END IF;
    FOR more IN
        SELECT g.ordinality::integer AS spot, n.*
        FROM unnest(chosen) WITH ORDINALITY AS g
        CROSS JOIN LATERAL (
            SELECT w.*, row_number() OVER (ORDER BY w.scheduled_at, w.id) + 1 AS round
            FROM (
                SELECT j.id, j.kind, j.crashes, j.group_limit, j.in_order, j.scheduled_at
                FROM job AS j
                WHERE j.queue = search.queue AND j.group_key IS NOT NULL AND j.state = 'available'
                    AND j.priority = level AND j.group_key = g.group_key
                    AND (j.scheduled_at, j.id) > (g.scheduled_at, g.id) AND j.id <> ALL (search.except_ids)
                    AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
                ORDER BY j.scheduled_at, j.id
                LIMIT 2 * missing / heads + 1
            ) AS w
        ) AS n
        WHERE g.priority = level AND NOT g.is_blocked
        ORDER BY n.round, g.ordinality
    LOOP
        spot := more.spot;
        CONTINUE WHEN chosen[spot].is_blocked;
        IF chosen[spot].counted >= least(
                CASE WHEN more.in_order THEN 1 END, more.group_limit, settings.max_per_group, chosen[spot].most
            )
            OR (more.kind <> ALL (search.kinds)) IS TRUE OR more.crashes > 1
            OR (more.crashes = 1 AND search.suspects_taken >= search.suspects)
        THEN
            chosen[spot].is_blocked := true;
            CONTINUE;
        END IF;
        search.suspects_taken := search.suspects_taken + (more.crashes > 0)::integer;
        search.suspects_seen := search.suspects_seen + (more.crashes > 0)::integer;
        chosen[spot].counted := chosen[spot].counted + 1;
        chosen := chosen || (
            more.id, chosen[spot].group_key, level, more.scheduled_at, more.round, chosen[spot].place,
            more.crashes > 0, NULL, NULL, true
        )::group_choice;
        EXIT WHEN cardinality(chosen) >= search.wanted;
    END LOOP;
    search.chosen := chosen;
    RETURN search;
END
$$;
COMMENT ON FUNCTION _choose_more IS 'Chooses further jobs of the groups whose first job was chosen at this priority: all second jobs, and so on.';

CREATE FUNCTION _keep_first(search group_search, fair boolean, OUT ids uuid[], OUT reached text)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    WITH candidate AS (
        SELECT c.id, c.group_key, c.priority, c.scheduled_at, c.round, c.place
        FROM unnest(search.chosen) AS c
        UNION ALL
        SELECT
            u.id, NULL, u.priority, u.scheduled_at,
            row_number() OVER (PARTITION BY u.priority ORDER BY u.scheduled_at, u.id)::integer,
            coalesce((
                SELECT t.place
                FROM unnest(search.turn_levels, search.turn_places) AS t (priority, place)
                WHERE t.priority = u.priority
            ), 0)
        FROM (
            SELECT j.id, j.priority, j.scheduled_at
            FROM job AS j
            WHERE j.queue = search.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
                AND (j.kind = ANY (search.kinds)) IS NOT FALSE AND j.id <> ALL (search.except_ids) AND NOT search.is_alone
                AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT search.wanted
            -- A job that another transaction has locked takes no place from a group.
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS u
    ),
    kept AS (
        SELECT c.id, c.group_key, c.priority, c.round, c.place
        FROM candidate AS c
        ORDER BY c.priority DESC, CASE WHEN fair THEN c.round END, CASE WHEN fair THEN c.place END, c.scheduled_at, c.id
        LIMIT search.wanted
    )
    SELECT
        coalesce(array_agg(k.id) FILTER (WHERE k.group_key IS NOT NULL), '{}'),
        -- The next fetch begins behind the last turn, unless a level ran out of visits or only freed groups were visited.
        CASE
            WHEN search.visits <= 0 THEN search.after_group
            WHEN search.ran_out_at IS NOT NULL THEN search.ran_out_at
            ELSE coalesce(
                (array_agg(coalesce(k.group_key, '') ORDER BY k.priority, k.round DESC, k.place DESC)
                    FILTER (WHERE fair OR k.group_key IS NOT NULL))[1],
                search.after_group
            )
        END
    INTO ids, reached
    FROM kept AS k;
END
$$;
COMMENT ON FUNCTION _keep_first IS 'The chosen jobs that keep their places beside jobs without a group. reached: the next fetch''s after_group.';

CREATE FUNCTION _jobs_of_groups(
    queue_name text, kinds text[], wanted integer, suspects integer, is_alone boolean, except_ids uuid[], visits integer,
    after_group text, freed_groups text[],
    OUT ids uuid[], OUT reached text, OUT has_startable boolean, OUT suspects_taken integer, OUT suspects_seen integer,
    OUT alone_crashes smallint, OUT is_rated boolean, OUT next_at timestamptz
)
    LANGUAGE plpgsql VOLATILE
AS $$
-- States of a group in one fetch: not visited; startable, whose first jobs are chosen; blocked, from its first job on that
-- may not start. Nothing starts behind a job that blocks.
--
-- Invariants: the queue's row is locked before anything is counted, and each statement here sees what was committed
-- before it begins, so no other fetch starts a job of the queue meanwhile. What ends meanwhile only makes more room. A
-- job is chosen without a lock, then locked without waiting; where that fails its group gives nothing from there on.
DECLARE
    settings CONSTANT queue := _lock_queue(queue_name);
    search group_search;
    level smallint;
    above smallint[] := '{}';
    locked uuid[];
BEGIN
    ids := '{}';
    has_startable := false;
    suspects_taken := 0;
    suspects_seen := 0;
    IF settings.name IS NULL OR settings.paused_at IS NOT NULL OR settings.held_until > clock_timestamp() THEN
        RETURN;
    END IF;
    is_rated := settings.group_rate_count IS NOT NULL;
    search := (
        queue_name, kinds, wanted, suspects, is_alone, except_ids, visits, after_group, freed_groups,
        is_rated OR EXISTS (SELECT FROM queue_group AS g WHERE g.queue = queue_name),
        '{}', '{}', '{}', 0, NULL, NULL, 0, 0, NULL, NULL
    );
    LOOP
        -- The next level of priority.
        SELECT j.priority INTO level
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available'
            AND j.priority < coalesce(above[cardinality(above)]::integer, 32768)
        ORDER BY j.priority DESC
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        search := _choose_heads(search, settings, level, above);
        IF NOT is_alone THEN
            search := _choose_more(search, settings, level);
        END IF;
        -- So that a fetch ends: the levels below have their turn when these have fewer jobs.
        EXIT WHEN cardinality(search.chosen) >= wanted OR cardinality(above) >= 1000
            OR search.all_visits >= 10 * greatest(visits, 1000);
        above := above || level;
    END LOOP;
    suspects_taken := search.suspects_taken;
    suspects_seen := search.suspects_seen;
    alone_crashes := search.alone_crashes;
    next_at := search.next_at;
    IF cardinality(search.chosen) = 0 THEN
        reached := coalesce(search.ran_out_at, after_group);
        RETURN;
    END IF;
    has_startable := true;
    SELECT k.ids, k.reached INTO ids, reached FROM _keep_first(search, settings.fair) AS k;
    locked := ARRAY(
        SELECT j.id FROM job AS j WHERE j.id = ANY (ids) AND j.state = 'available' FOR NO KEY UPDATE SKIP LOCKED
    );
    IF cardinality(locked) < cardinality(ids) THEN
        -- Of each group the jobs before the first one that another transaction has locked.
        ids := ARRAY(
            SELECT l.id
            FROM (
                SELECT
                    c.id,
                    -- Jobs of a group were chosen in its order.
                    bool_and(c.id = ANY (locked)) OVER (PARTITION BY c.group_key ORDER BY c.ordinality) AS are_locked
                FROM unnest(search.chosen) WITH ORDINALITY AS c
                WHERE c.id = ANY (ids)
            ) AS l
            WHERE l.are_locked
        );
        suspects_taken := (SELECT count(*) FROM unnest(search.chosen) AS c WHERE c.is_suspect AND c.id = ANY (ids));
    END IF;
END
$$;
COMMENT ON FUNCTION _jobs_of_groups IS 'The jobs of groups that a fetch from this queue may start now. Locks them and the queue''s row. Visits up to visits groups of each priority from after_group on, and freed_groups. suspects, is_alone: as _guarded_jobs. reached: the next fetch''s after_group. Null: the queue is paused, held or locked. is_rated: a start spends a token of its group. next_at: when the first held group may start.';
