-- Sets how many of a queue's jobs start in a time, and wakes the runners that sleep: some may start now.
SELECT FROM /* schema */rate_queue($1, $2, $3, $4)
