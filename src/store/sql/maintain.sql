-- Does the maintenance that is due, and returns the milliseconds until the next call.
SELECT
    m.promoted, m.rescued, m.pruned, m.released, m.expired,
    (extract(epoch FROM m.next_in) * 1000)::bigint AS next_in
FROM /* schema */maintain($1) AS m
