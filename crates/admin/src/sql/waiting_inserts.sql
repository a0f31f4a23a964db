-- The inserts that wait for other transactions. The longest wait comes first.
SELECT
    w.pid, w.application, extract(epoch FROM w.waiting_for) AS waiting_for, w.waits_for,
    w.unique_key, w.holder, w.blocker_pid, w.blocker_application, w.blocker_state, w.blocker_query,
    extract(epoch FROM w.blocker_open_for) AS blocker_open_for
FROM /* schema */waiting_insert AS w
ORDER BY w.waiting_for DESC NULLS LAST, w.pid
LIMIT ($1::jsonb ->> 'limit')::bigint
