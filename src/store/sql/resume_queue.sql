-- Resumes a paused queue, and wakes idle runners.
SELECT FROM /* schema */resume_queue($1)
