-- Takes out runners that died a day ago and left no job behind.
DELETE FROM /* schema */runner AS r
WHERE r.leased_until < clock_timestamp() - interval '1 day'
    AND NOT EXISTS (SELECT FROM /* schema */job AS j WHERE j.worker = r.id AND j.state = 'running')
