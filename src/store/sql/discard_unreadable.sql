-- Discards a job ($1) that no fetch can return, with the reason ($2). $3: whether the errors of the job can be read and are
-- kept. Answers whether the job is out of the way.
SELECT /* schema */_discard_unreadable($1, $2, $3) AS is_away
