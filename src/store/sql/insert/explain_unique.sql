-- What an insert would do with one job: always one row, without locks.
SELECT
    e.outcome, e.replaced, e.new_args, e.new_scheduled_at, e.answered_at,
    (e.holder).id, (e.holder).state::text AS state, (e.holder).created_at, (e.holder).unique_states,
    (e.holder).until_start, (e.holder).unique_until
FROM /* schema */_explain_insert(/* new_job */NULL) AS e
