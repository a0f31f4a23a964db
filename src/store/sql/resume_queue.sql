-- Lets a paused queue go on, and wakes the runners that sleep.
SELECT FROM /* schema */resume_queue($1)
