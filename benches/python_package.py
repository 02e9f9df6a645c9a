"""Answers each line of its input with the nanoseconds of a new session of the process tier to its first result, through
the Python package and one engine that is shared and warm.

The line says how many seconds to sleep before, so that it wakes up as those do that it is measured beside. The first
argument is the policy, as JSON."""

import json
import sys
import time

from ringfence import Sandbox

policy = json.loads(sys.argv[1])
for line in sys.stdin:
    time.sleep(float(line))
    start = time.perf_counter_ns()
    with Sandbox(policy=policy, tier="process") as box:
        result = box.run("1+1")
        took = time.perf_counter_ns() - start
    if result.value != 2:
        sys.exit(f"ringfence says that 1+1 is {result.value!r}: {result.status}")
    print(took, flush=True)
