-- Maintenance that nobody does although runners live: its lease ran out at least $1 ago, or it is switched off. And
-- periodic jobs that cannot be run, or whose slot passed at least $1 ago.
SELECT to_jsonb(m)
FROM (
    SELECT
        'service' AS what, s.service AS name,
        m.holder IS NULL AND m.leased_until > clock_timestamp() + interval '1 day' AS is_off,
        -- Infinite times cannot be subtracted.
        extract(
            epoch FROM clock_timestamp() - least(greatest(m.leased_until, 'epoch'), clock_timestamp() + interval '1 day')
        )::double precision AS late_by,
        NULL AS problem
    FROM (VALUES ('periodic'), ('promoter'), ('pruner'), ('reindexer'), ('rescuer')) AS s (service)
    JOIN /* schema */maintenance AS m ON m.service = s.service
    WHERE (m.holder IS NULL AND m.leased_until > clock_timestamp() + interval '1 day')
        OR (
            m.leased_until <= clock_timestamp() - $1::interval
            -- Not every runner offers it.
            AND s.service <> 'reindexer'
            AND EXISTS (
                SELECT FROM /* schema */runner AS r
                WHERE r.leased_until > clock_timestamp() AND r.started_at <= clock_timestamp() - $1::interval
            )
        )
    UNION ALL
    SELECT
        'periodic', p.name, false,
        extract(epoch FROM clock_timestamp() - least(greatest(p.next_at, 'epoch'), clock_timestamp()))::double precision, p.problem
    FROM /* schema */periodic AS p
    WHERE p.paused_at IS NULL AND (p.problem IS NOT NULL OR p.next_at <= clock_timestamp() - $1::interval)
) AS m
ORDER BY m.what, m.name
LIMIT 100
