(
    ($1::text[] IS NULL OR j.state = ANY ($1::text[]::/* schema */job_state[]))
    -- Said in the words of the partial indexes as well, so that they can serve.
    AND (
        $1::text[] IS DISTINCT FROM ARRAY['available']
        OR (j.group_key IS NULL AND j.state = 'available')
        OR (j.group_key IS NOT NULL AND j.state = 'available')
    )
    AND ($1::text[] IS DISTINCT FROM ARRAY['running'] OR j.state = 'running')
    AND ($1::text[] IS DISTINCT FROM ARRAY['discarded'] OR j.state = 'discarded')
    AND (coalesce($1::text[] <@ ARRAY['retryable', 'scheduled'], false) IS NOT TRUE OR j.state IN ('scheduled', 'retryable'))
    AND ($2::text[] IS NULL OR j.queue = ANY ($2))
    AND ($3::text[] IS NULL OR j.kind = ANY ($3))
    AND (
        $4::text IS NULL
        OR (j.unique_key = $4 AND j.claims AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp()))
    )
    AND ($5::jsonb IS NULL OR j.args @> $5)
    AND ($6::jsonb IS NULL OR j.meta @> $6)
    AND ($7::smallint IS NULL OR j.priority = $7)
    AND ($8::integer IS NULL OR j.attempt >= $8)
    AND ($9::timestamptz IS NULL OR j.created_at >= $9)
    AND ($10::timestamptz IS NULL OR j.created_at < $10)
    AND ($11::timestamptz IS NULL OR j.scheduled_at >= $11)
    AND ($12::timestamptz IS NULL OR j.scheduled_at < $12)
    AND ($13::timestamptz IS NULL OR j.finalized_at >= $13)
    AND ($14::timestamptz IS NULL OR j.finalized_at < $14)
    AND ($15::timestamptz IS NULL OR j.attempted_at >= $15)
    AND ($16::timestamptz IS NULL OR j.attempted_at < $16)
    AND ($17::uuid[] IS NULL OR j.id = ANY ($17))
    AND ($18::text IS NULL OR j.group_key = $18)
    AND ($19::uuid IS NULL OR j.id >= $19)
    AND ($20::text IS NULL OR j.errors -> -1 ->> 'code' = $20)
    AND ($21::uuid[] IS NULL OR j.id <> ALL ($21))
    -- Of an entry that no runner wrote the time may be no time.
    AND (
        num_nonnulls($22::timestamptz, $23::timestamptz) = 0
        OR CASE
            WHEN (j.errors #>> '{-1,at}') COLLATE "C" ~ '^\d{4}-\d\d-\d\dT' THEN
                (j.errors #>> '{-1,at}')::timestamptz >= coalesce($22, '-infinity')
                AND (j.errors #>> '{-1,at}')::timestamptz < coalesce($23, 'infinity')
        END
    )
    AND ($24::text IS NULL OR j.args @? $24::text::jsonpath)
    AND ($25::text IS NULL OR /* schema */error_pattern(j.errors -> -1 ->> 'error') = $25)
)
