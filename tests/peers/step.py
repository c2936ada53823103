"""Times training steps of one peer in this process. Prints one line per request read from standard input.

usage: step.py PEER MODEL BATCH THREADS      PEER: torch, torch_channels_last, torch_compile, tensorflow
Protocol: prints "ready"; for every line "N" on standard input runs N steps and prints the median milliseconds of one and
the median CPU milliseconds of one (all threads of the process).
"""
import statistics
import sys
import time

import models


def main():
    peer, model, batch, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if peer == "tensorflow":
        step = models.tensorflow_step(model, batch, threads)
    else:
        step = models.torch_step(model, batch, threads, compiled=peer == "torch_compile",
                                 channels_last=peer == "torch_channels_last")
    for _ in range(3):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        wall, cpu = [], []
        for _ in range(int(line)):
            start, cpu_start = time.perf_counter(), time.process_time()
            step()
            cpu.append((time.process_time() - cpu_start) * 1e3)
            wall.append((time.perf_counter() - start) * 1e3)
        print(statistics.median(wall), statistics.median(cpu), flush=True)


main()
