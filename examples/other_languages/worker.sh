#!/bin/sh
# Works jobs of the kind file.hash in the queue files, with psql alone: DATABASE_URL=postgres://… sh worker.sh
name="$(hostname):$$"
sql() { psql "$DATABASE_URL" -XqtA -v ON_ERROR_STOP=1 -v name="$name" -v id="$id" -v run="$run" -v said="$said"; }
trap 'stop=1' TERM INT
while [ -z "$stop" ]; do
    echo "SELECT FROM uniqueue.maintain(:'name')" | sql
    job=$(echo "SELECT id, run, args ->> 'path' FROM uniqueue.fetch_jobs('{files}', :'name', kinds => '{file.hash}')" | sql)
    if [ -z "$job" ]; then sleep 1; continue; fi
    IFS='|' read -r id run path <<END
$job
END
    if said=$(sha256sum -- "$path" 2>&1); then
        echo "SELECT FROM uniqueue.complete_jobs(ARRAY[:'id'::uuid], ARRAY[:run], ARRAY[to_json(:'said'::text)::text])" | sql
    else
        echo "SELECT FROM uniqueue.fail_jobs(ARRAY[:'id'::uuid], ARRAY[:run], ARRAY[:'said'])" | sql
    fi
done
echo "SELECT FROM uniqueue.stop_worker(:'name')" | sql
