-- What fetch.sql looks at where places are given: such queues only behind one place for each priority, so
-- that what lies before them is not walked again. A part of its own, since most looks do without, and a
-- statement costs what there is of it before the first row.
    WHERE w.queue <> ALL ($5::text[])
    UNION ALL
    SELECT o.ctid
    FROM wanted AS w
    CROSS JOIN LATERAL (
        SELECT n.ctid
        -- The places come with the highest priority first, and unnest keeps their order.
        FROM unnest($5::text[], $6::smallint[], $7::timestamptz[], $8::uuid[])
            AS p (queue, priority, scheduled_at, id)
        CROSS JOIN LATERAL (
            SELECT j.ctid
            FROM /* schema */job AS j
            WHERE j.queue = p.queue
                AND j.state = 'available'
                AND j.priority = p.priority
                AND (j.scheduled_at, j.id) > (p.scheduled_at, p.id)
                AND j.kind = ANY ($3::text[])
            ORDER BY j.scheduled_at, j.id
            LIMIT w.slots
            FOR UPDATE SKIP LOCKED
        ) AS n
        WHERE p.queue = w.queue
        LIMIT w.slots
    ) AS o
    WHERE w.queue = ANY ($5::text[])
