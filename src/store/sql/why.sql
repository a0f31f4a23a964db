-- What keeps job $1 from starting, the first obstacle to go first.
SELECT w.code, w.reason, w.remedy, w.details
FROM /* schema */why_waiting($1) WITH ORDINALITY AS w (code, reason, remedy, details, place)
ORDER BY w.place
