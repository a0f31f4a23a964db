-- Limits how many available jobs a queue may have, from its next insert on.
SELECT FROM /* schema */limit_waiting($1, $2)
