-- Discards a job ($1) that no fetch can return, with the reason ($2). $3: whether the errors of the job can be read and are
-- kept. Returns whether no fetch meets the job any more.
SELECT /* schema */_discard_unreadable($1, $2, $3) AS is_away
