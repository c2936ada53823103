"""Measures what it costs that another process computes the batches; compare.py bridge starts it.

usage: shoal train --program=program_wait.py --num_ps_tasks=0 -- BYTES STEPS
Each batch has next to no computation. Prints the median and the 90th percentile of the time from DONE to the next batch,
in microseconds: both messages, the wake-ups, and the step of the worker in between (no ps, so it includes the update).
"""
import statistics
import sys
import time

import numpy as np

import shoal

elements, steps = int(sys.argv[1]) // 4, int(sys.argv[2])
worker = shoal.Worker()
worker.declare([shoal.Variable("v", initial=np.zeros(elements, np.float32))], examples=1 << 20, batch_size=1,
               max_steps=steps, optimizer=shoal.SGD(0.1))
waits = []
done = time.perf_counter()
for work in worker:
    waits.append(1e6 * (time.perf_counter() - done))
    work.gradients["v"].fill(0)
    work.done(0.0)
    done = time.perf_counter()
waits = sorted(waits[len(waits) // 10:])
print(statistics.median(waits), waits[len(waits) * 9 // 10], flush=True)
