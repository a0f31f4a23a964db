-- How many of the newest $2 jobs were inserted within $1, how many were read, and how old the oldest of those is. Ids
-- follow time, so this scans the primary key from its end.
SELECT
    count(*) AS looked_at,
    count(*) FILTER (WHERE n.created_at > t.now - $1::interval) AS inserted,
    extract(epoch FROM t.now - min(n.created_at) FILTER (WHERE isfinite(n.created_at)))::double precision AS reach
FROM (SELECT clock_timestamp() AS now) AS t
LEFT JOIN (SELECT j.created_at FROM /* schema */job AS j ORDER BY j.id DESC LIMIT $2) AS n ON true
GROUP BY t.now
