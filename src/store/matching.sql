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
    AND ($4::uuid[] IS NULL OR j.id = ANY ($4))
    AND (
        $5::jsonb ->> 'unique_key' IS NULL
        OR (
            j.unique_key = $5 ->> 'unique_key'
            AND j.claims
            AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
        )
    )
    AND ($5 ->> 'group' IS NULL OR j.group_key = $5 ->> 'group')
    AND ($5 -> 'except_ids' IS NULL OR NOT ($5 -> 'except_ids') ? j.id::text)
    AND ($5 ->> 'id_at_least' IS NULL OR j.id >= ($5 ->> 'id_at_least')::uuid)
    AND ($5 ->> 'id_at_most' IS NULL OR j.id <= ($5 ->> 'id_at_most')::uuid)
    AND (
        $5 ->> 'after' IS NULL
        OR CASE
            WHEN $5 ->> 'oldest_first' = 'true' THEN j.id > ($5 ->> 'after')::uuid
            ELSE j.id < ($5 ->> 'after')::uuid
        END
    )
    AND ($5 -> 'args' IS NULL OR j.args @> ($5 -> 'args'))
    AND ($5 ->> 'args_path' IS NULL OR j.args @? ($5 ->> 'args_path')::jsonpath)
    AND ($5 -> 'meta' IS NULL OR j.meta @> ($5 -> 'meta'))
    AND ($5 ->> 'priority' IS NULL OR j.priority = ($5 ->> 'priority')::smallint)
    AND ($5 ->> 'attempts_at_least' IS NULL OR j.attempt >= ($5 ->> 'attempts_at_least')::integer)
    AND ($5 ->> 'error_code' IS NULL OR j.errors -> -1 ->> 'code' = $5 ->> 'error_code')
    AND (
        $5 ->> 'error_pattern' IS NULL
        OR /* schema */error_pattern(j.errors -> -1 ->> 'error') = $5 ->> 'error_pattern'
    )
    AND ($5 ->> 'created_after' IS NULL OR j.created_at >= ($5 ->> 'created_after')::timestamptz)
    AND ($5 ->> 'created_before' IS NULL OR j.created_at < ($5 ->> 'created_before')::timestamptz)
    AND ($5 ->> 'scheduled_after' IS NULL OR j.scheduled_at >= ($5 ->> 'scheduled_after')::timestamptz)
    AND ($5 ->> 'scheduled_before' IS NULL OR j.scheduled_at < ($5 ->> 'scheduled_before')::timestamptz)
    AND ($5 ->> 'attempted_after' IS NULL OR j.attempted_at >= ($5 ->> 'attempted_after')::timestamptz)
    AND ($5 ->> 'attempted_before' IS NULL OR j.attempted_at < ($5 ->> 'attempted_before')::timestamptz)
    AND ($5 ->> 'finalized_after' IS NULL OR j.finalized_at >= ($5 ->> 'finalized_after')::timestamptz)
    AND ($5 ->> 'finalized_before' IS NULL OR j.finalized_at < ($5 ->> 'finalized_before')::timestamptz)
    -- Of an entry that no runner wrote the time may be no time.
    AND (
        num_nonnulls($5 ->> 'failed_after', $5 ->> 'failed_before') = 0
        OR CASE
            WHEN (j.errors #>> '{-1,at}') COLLATE "C" ~ '^\d{4}-\d\d-\d\dT' THEN
                (j.errors #>> '{-1,at}')::timestamptz >= coalesce(($5 ->> 'failed_after')::timestamptz, '-infinity')
                AND (j.errors #>> '{-1,at}')::timestamptz < coalesce(($5 ->> 'failed_before')::timestamptz, 'infinity')
        END
    )
)
