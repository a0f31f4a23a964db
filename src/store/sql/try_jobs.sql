-- Tries whether these jobs ($1) can be read and started by the runner $2, each by itself; null: whether they can be read.
SELECT t.id, t.is_there, t.is_locked, t.bytes, t.took, t.code, t.problem
FROM /* schema */try_jobs($1::uuid[], $2::uuid) AS t
