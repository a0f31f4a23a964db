-- The bounds of a round of the pruner: the range of ids whose jobs are too young to be deleted, by the shortest
-- retention (null: no job is deleted), and the settings of the queues, to notice a change. Ids of
-- clients whose clocks are ahead count as old after ten minutes.
SELECT
    /* schema */id_at(clock_timestamp() - least($1::interval, $2::interval, $3::interval, k.shortest)) AS young_from,
    /* schema */id_at(clock_timestamp() + interval '10 minutes') AS young_to,
    (extract(epoch FROM least($1, $2, $3, k.shortest)) * 1000)::bigint AS shortest,
    k.settings
FROM (
    SELECT
        -- A retention can be as long as an interval, and the difference must stay a valid time.
        min(CASE WHEN s.keep > interval '1000 years' THEN interval '1000 years' ELSE s.keep END) AS shortest,
        coalesce(
            string_agg(
                concat_ws(' ', q.name, 'completed', q.keep_completed, 'cancelled', q.keep_cancelled, 'discarded', q.keep_discarded),
                ', ' ORDER BY q.name
            ),
            ''
        ) AS settings
    FROM /* schema */queue AS q
    CROSS JOIN LATERAL (SELECT least(q.keep_completed, q.keep_cancelled, q.keep_discarded) AS keep) AS s
    WHERE coalesce(q.keep_completed, q.keep_cancelled, q.keep_discarded) IS NOT NULL
) AS k
