-- Takes the next jobs of several queues ($2), of the given kinds ($3), and starts a run of each for the runner $1. $4: how many
-- suspects to take in all; null: as _plan_fetch says. $5: whether to take nothing but one suspect that crashed twice or more.
-- $6 to $9: the positions of the cursor. $10: what the runner remembers. Answers with a row for each job, and one without an id
-- that has the facts.
SELECT
    f.facts, f.id, f.kind, f.queue, f.priority, f.attempt, f.max_attempts, f.created_at, f.scheduled_at, f.args, f.meta,
    f.errors, f.output, f.progress, f.unique_key, f.unique_states, f.unique_until, f.claims, f.until_start, f.replaced_by,
    f.run, f.crashes, f.group_key, f.group_limit, f.in_order, f.updates, f.updated_at, f.updated_by, f.discard_on_reentry,
    f.expires_at
FROM /* schema */_fetch_jobs($1, $2, $3, '{}', $4, $5, $6, $7, $8, $9, NULL, $10) AS f
