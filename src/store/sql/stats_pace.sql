-- The throughput of the live runners, by the counts of their last heartbeats, and the number of runners.
SELECT
    count(*) AS runners,
    count(r.counted_at) AS counted,
    coalesce(sum(r.lately_completed / nullif(extract(epoch FROM r.lately), 0)), 0)::double precision AS completed,
    coalesce(sum(r.lately_failed / nullif(extract(epoch FROM r.lately), 0)), 0)::double precision AS failed,
    extract(epoch FROM max(r.lately))::double precision AS over
FROM /* schema */runner AS r
WHERE r.leased_until > clock_timestamp()
