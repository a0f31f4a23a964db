-- Completes many attempts of jobs that are not kept, all or none, as complete_and_delete does those that it can.
SELECT /* schema */delete_completed($1, $2, $3, $4, $5) AS are_gone
