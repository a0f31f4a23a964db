-- Jobs numbered from $1, $2 of them, in $3 queues, with $4 bytes more of args, with keys or not, in state $6, made $7
-- ago. Ids carry that time, as ids made by clients do, and follow the numbers. They are in $8 groups, of which the first
-- has those with numbers below $9; with $10 each group has a limit of 1, with $11 it runs in order.
INSERT INTO /* schema */job (
    id, kind, queue, args, priority, state, finalized_at, unique_key, unique_states, group_key, group_limit, in_order
)
SELECT
    (
        lpad(to_hex((extract(epoch FROM now() - $7::interval) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(g.n), 12, '0')
    )::uuid,
    'bench',
    CASE WHEN $3 = 1 THEN 'bench' ELSE 'bench_' || g.n % $3 END,
    CASE
        WHEN $4 = 0 THEN jsonb_build_object('n', g.n)
        ELSE jsonb_build_object(
            'n', g.n,
            'pad', (SELECT left(string_agg(md5(g.n || ' ' || p.n), ''), $4) FROM generate_series(0, $4 / 32) AS p (n))
        )
    END,
    0,
    $6::/* schema */job_state,
    CASE WHEN $6 = 'completed' THEN now() END,
    CASE WHEN $5 THEN encode(sha256(g.n::text::bytea), 'hex') END,
    CASE WHEN $5 THEN 241 END,
    CASE WHEN g.n < $9 THEN 'group_0' WHEN $8 > 0 THEN 'group_' || g.n % $8 END,
    CASE WHEN $10 THEN 1 END,
    $11
FROM generate_series($1, $1 + $2 - 1) AS g (n)
