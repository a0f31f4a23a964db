(
    SELECT
        CASE
            WHEN bool_or(NOT n.refused) THEN /* schema */_log_change($3, $4, $5, $6, count(*) FILTER (WHERE NOT n.refused))
        END AS logged,
        -- Evaluated after all rows are changed: the limit is not for the waits of the COMMIT.
        CASE WHEN $2::text IS NOT NULL THEN set_config('lock_timeout', '0', true) END AS unlimited
    FROM changed AS n
)