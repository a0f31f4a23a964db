-- Resumes a queue that is paused or held, and wakes idle runners.
SELECT FROM /* schema */resume_queue($1)
