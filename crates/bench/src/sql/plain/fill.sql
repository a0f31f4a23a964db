-- Jobs numbered from $1, $2 of them, in $3 queues, with $4 bytes more of args, with keys or not. Ids follow the
-- numbers.
INSERT INTO /* schema */plain_job (id, queue, kind, args, key)
SELECT
    (
        lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(g.n), 12, '0')
    )::uuid,
    CASE WHEN $3 = 1 THEN 'bench' ELSE 'bench_' || g.n % $3 END,
    'bench',
    CASE
        WHEN $4 = 0 THEN jsonb_build_object('n', g.n)
        ELSE jsonb_build_object(
            'n', g.n,
            'pad', (SELECT left(string_agg(md5(g.n || ' ' || p.n), ''), $4) FROM generate_series(0, $4 / 32) AS p (n))
        )
    END,
    CASE WHEN $5 THEN encode(sha256(g.n::text::bytea), 'hex') END
FROM generate_series($1, $1 + $2 - 1) AS g (n)
