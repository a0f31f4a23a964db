-- Takes a service's lease, or extends it, where it is free or the caller's own. A lease that was taken in the future, before
-- the clock went back, is free. Always one row: whether the caller has
-- the lease now, and in how many milliseconds the lease ends. A locked row counts as taken: a runner never waits for a
-- lease.
WITH entered AS (
    INSERT INTO /* schema */maintenance (service, holder, runner, taken_at, leased_until)
    SELECT $1::text, $2::uuid, $3::text, clock_timestamp(), clock_timestamp() + $4::interval
    WHERE NOT EXISTS (SELECT FROM /* schema */maintenance AS m WHERE m.service = $1)
    ON CONFLICT DO NOTHING
    RETURNING service
),
free AS (
    SELECT m.service
    FROM /* schema */maintenance AS m
    WHERE m.service = $1
        AND (
            m.holder = $2 OR m.leased_until <= clock_timestamp()
            OR (m.holder IS NOT NULL AND m.taken_at > clock_timestamp())
        )
    FOR UPDATE SKIP LOCKED
),
taken AS (
    UPDATE /* schema */maintenance AS m
    SET holder = $2, runner = $3, taken_at = clock_timestamp(), leased_until = clock_timestamp() + $4
    FROM free AS f
    WHERE m.service = f.service
    RETURNING m.service
)
SELECT
    EXISTS (SELECT FROM entered UNION ALL SELECT FROM taken) AS is_held,
    (
        -- Clamped to a day, since infinite times cannot be subtracted.
        SELECT (extract(
            epoch FROM greatest(least(m.leased_until, clock_timestamp() + interval '1 day'), clock_timestamp() - interval '1 day')
                - clock_timestamp()
        ) * 1000)::bigint
        FROM /* schema */maintenance AS m
        WHERE m.service = $1
    ) AS free_in
