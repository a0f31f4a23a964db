# Works jobs of the kind text.count, one after another: uniqueue work --queue text --kind text.count --lines -- python3 lines.py
import json
import sys

for line in sys.stdin:
    job = json.loads(line)
    print(json.dumps({"level": "info", "counts": job["args"]["text"]}))  # passed on: it does not name the job
    answer = {"output": len(job["args"]["text"])} if job["args"]["text"] else {"discard": "nothing to count"}
    print(json.dumps({"id": job["id"], **answer}), flush=True)
