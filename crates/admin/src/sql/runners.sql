-- Every runner with its queues and how many jobs it runs in each. Live ones come first.
SELECT
    r.id, r.name, r.version, r.host, r.started_at, r.idle AS is_idle, r.kinds, r.completed, r.failed,
    r.leased_until > clock_timestamp() AS is_alive,
    -- Infinite times cannot be subtracted.
    extract(epoch FROM clock_timestamp() - greatest(r.heartbeat_at, 'epoch')) AS heartbeat_age,
    CASE
        WHEN r.leased_until > clock_timestamp()
            THEN extract(epoch FROM least(r.leased_until, clock_timestamp() + interval '1 year') - clock_timestamp())
    END AS lease_left,
    extract(epoch FROM r.keep_completed) AS keep_completed,
    extract(epoch FROM r.keep_cancelled) AS keep_cancelled,
    extract(epoch FROM r.keep_discarded) AS keep_discarded,
    -- One probe of job_running a queue.
    ARRAY(
        SELECT jsonb_build_object('queue', q.name, 'slots', r.slots[q.place], 'running', (
            SELECT count(*)
            FROM (
                SELECT FROM /* schema */job AS j
                WHERE j.state = 'running' AND j.queue = q.name AND j.worker = r.id
                LIMIT 10000
            ) AS c
        ))
        FROM unnest(r.queues) WITH ORDINALITY AS q (name, place)
        ORDER BY q.place
    ) AS queues
FROM /* schema */runner AS r
ORDER BY r.leased_until > clock_timestamp() DESC, r.name, r.id
LIMIT 1000
