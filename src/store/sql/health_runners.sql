-- Every runner, with how late its heartbeat is. One that has been dead for more than an hour and left no job behind
-- is left out.
SELECT to_jsonb(o)
FROM (
    SELECT
        r.id, r.name, r.queues,
        -- Infinite times cannot be subtracted.
        extract(
            epoch FROM least(greatest(r.leased_until, 'epoch'), clock_timestamp() + interval '1 year') - clock_timestamp()
        )::double precision AS lease_left,
        extract(epoch FROM clock_timestamp() - r.heartbeat_at)::double precision AS heartbeat_age,
        extract(
            epoch FROM least(greatest(r.leased_until, 'epoch'), r.heartbeat_at + interval '1 year') - r.heartbeat_at
        )::double precision AS lease,
        j.running
    FROM /* schema */runner AS r
    CROSS JOIN LATERAL (
        SELECT count(*) AS running
        FROM (
            -- By job_running; asked only of the dead.
            SELECT FROM /* schema */job AS j
            WHERE j.worker = r.id AND j.state = 'running' AND r.leased_until <= clock_timestamp()
            LIMIT 1001
        ) AS c
    ) AS j
    WHERE r.leased_until > clock_timestamp() - interval '1 hour' OR j.running > 0
    ORDER BY r.leased_until
    LIMIT 1000
) AS o
