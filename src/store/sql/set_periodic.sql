-- Changes what is given of a periodic job.
SELECT /* schema */set_periodic(
    $1, kind => $2, schedule => $3, time_zone => $4, args => $5, queue => $6, priority => $7, max_attempts => $8, catch_up => $9,
    expires_in => $10
)
