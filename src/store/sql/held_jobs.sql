-- The jobs that claim these keys now: what inserts that ignore duplicates would meet. None while duplicates of any
-- kind are audited: the audit must hear of who meets them.
SELECT clock_timestamp() AS answered_at, /* columns */j.*
FROM /* schema */job AS j
-- The SELECT hides how many keys there are, or each number of them would be planned anew.
WHERE j.unique_key = ANY ((SELECT $1::text[])::text[])
    AND j.claims
    -- True of each row that claims, so the index that knows only those leaves it out. A scan of the table would have to
    -- ask, and its price lets the planner take the index however small the table is.
    AND (j.claims OR /* schema */not_by_scan(j.claims))
    AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
    AND NOT EXISTS (SELECT FROM /* schema */duplicate_audit AS a WHERE a.stopped_at IS NULL)
