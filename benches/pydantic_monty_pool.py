"""Answers each line of its input with the nanoseconds of one checkout and run of `1+1` in a warm pool of pydantic-monty.

The line says how many seconds to sleep before, so that it wakes up as those do that it is measured beside."""

import sys
import time

import pydantic_monty

with pydantic_monty.Monty() as pool:
    with pool.checkout() as session:
        session.feed_run("1")
    for line in sys.stdin:
        time.sleep(float(line))
        start = time.perf_counter_ns()
        with pool.checkout() as session:
            value = session.feed_run("1+1")
        took = time.perf_counter_ns() - start
        if value != 2:
            sys.exit(f"pydantic-monty says that 1+1 is {value!r}")
        print(took, flush=True)
