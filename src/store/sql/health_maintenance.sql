-- Maintenance services that no runner does although runners live: the lease ran out at least $1 ago, there never was
-- one, or the service is switched off. Also periodic jobs that cannot be run, whose slot passed at least $1 ago, or
-- that no runner has read for as long.
SELECT to_jsonb(m)
FROM (
    SELECT
        'service' AS what, s.service AS name,
        i.is_off, false AS is_unseen,
        -- Infinite times cannot be subtracted.
        extract(
            epoch FROM clock_timestamp()
                - least(greatest(coalesce(m.leased_until, o.started_at), 'epoch'), clock_timestamp() + interval '1 day')
        )::double precision AS late_by,
        NULL AS problem
    FROM (VALUES ('expirer'), ('periodic'), ('promoter'), ('pruner'), ('reindexer'), ('releaser'), ('rescuer')) AS s (service)
    -- The first runner that gets a lease makes the row.
    LEFT JOIN /* schema */maintenance AS m ON m.service = s.service
    CROSS JOIN LATERAL (
        SELECT m.leased_until IS NOT NULL AND m.holder IS NULL
            AND m.leased_until > clock_timestamp() + interval '1 day' AS is_off
    ) AS i
    CROSS JOIN LATERAL (
        -- Without a lease so far, the runner has offered the service since it started. Remote workers offer no periodic jobs.
        SELECT min(r.started_at) AS started_at
        FROM /* schema */runner AS r
        WHERE r.leased_until > clock_timestamp() AND (r.remote IS NULL OR s.service <> 'periodic')
    ) AS o
    WHERE i.is_off
        OR (
            coalesce(m.leased_until, '-infinity') <= clock_timestamp() - $1::interval
            AND o.started_at <= clock_timestamp() - $1::interval
            -- Not every runner offers it.
            AND s.service <> 'reindexer'
        )
    UNION ALL
    SELECT
        'periodic', p.name, false, p.next_at IS NULL,
        extract(epoch FROM clock_timestamp() - least(greatest(w.since, 'epoch'), clock_timestamp()))::double precision,
        p.problem
    FROM /* schema */periodic AS p
    CROSS JOIN LATERAL (SELECT coalesce(p.next_at, greatest(p.starts_at, p.created_at)) AS since) AS w
    WHERE p.paused_at IS NULL AND (p.problem IS NOT NULL OR w.since <= clock_timestamp() - $1::interval)
) AS m
ORDER BY m.what COLLATE "C", m.name COLLATE "C"
LIMIT 100
