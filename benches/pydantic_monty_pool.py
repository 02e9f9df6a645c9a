"""Answers each line of its input with the nanoseconds of one checkout and run of `1+1` in a warm pool of pydantic-monty."""

import sys
import time

import pydantic_monty

with pydantic_monty.Monty() as pool:
    with pool.checkout() as session:
        session.feed_run("1")
    for _line in sys.stdin:
        start = time.perf_counter_ns()
        with pool.checkout() as session:
            value = session.feed_run("1+1")
        took = time.perf_counter_ns() - start
        if value != 2:
            sys.exit(f"pydantic-monty says that 1+1 is {value!r}")
        print(took, flush=True)
