-- Sets how many jobs of each group of a queue start in a time, and wakes the runners that sleep: some may start now.
SELECT FROM /* schema */rate_groups($1, $2, $3, $4)
