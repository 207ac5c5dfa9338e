"""A fit with all cores against one with one core, beside another program that keeps one core busy.

    python benchmarks/busy_core.py [--rounds N] [--sizes 40,140,600] [--policy PASSIVE|ACTIVE]

The other program counts, in a process of its own. Fits with n_jobs=1 and n_jobs=-1 take turns in one process, after
one unmeasured fit of each; a ratio is the time of -1 over that of 1 just before or after it, so that whatever else the
machine does hits both. Below 1, more cores are quicker. --policy is what OpenMP is told about waiting threads; without
it, it is told nothing, as in a program of a user who knows nothing of it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

COUNT = """
import os, sys
while os.getppid() == int(sys.argv[1]):  # it ends with the benchmark, however that ends
    sum(range(10**6))
"""


def fit_seconds(X, y, jobs: int) -> float:
    from siggpde import SigGPClassifier  # noqa: PLC0415 - after the policy is set

    started = time.perf_counter()
    SigGPClassifier(n_jobs=jobs).fit(X, y)
    return time.perf_counter() - started


def random_walks(n: int, channels: int = 3, length: int = 100):
    """Random walks of four classes, which drift in different ways."""
    import numpy as np  # noqa: PLC0415

    random = np.random.default_rng(0)
    y = np.arange(n) % 4
    steps = random.standard_normal((n, channels, length))
    steps[:, 0] += 0.1 * y[:, None]
    return steps.cumsum(axis=2), y


def ratios(size: int, rounds: int) -> tuple[list[float], list[float]]:
    """Times of n_jobs=1, and of n_jobs=-1 over these."""
    X, y = random_walks(size)
    for jobs in (1, -1):
        fit_seconds(X, y, jobs)
    ones, all_cores = [], []
    for turn in range(rounds):
        order = (1, -1) if turn % 2 else (-1, 1)
        times = {jobs: fit_seconds(X, y, jobs) for jobs in order}
        ones.append(times[1])
        all_cores.append(times[-1] / times[1])
    return ones, all_cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", default="40,140,600")
    parser.add_argument("--policy", choices=["PASSIVE", "ACTIVE"])
    given = parser.parse_args()
    if given.policy is not None:
        os.environ["OMP_WAIT_POLICY"] = given.policy
    busy = subprocess.Popen([sys.executable, "-c", COUNT, str(os.getpid())])
    try:
        load = os.getloadavg()[0]
        print(f"{os.cpu_count()} cores, load average {load:.1f} at the start, {given.rounds} rounds")
        print("| series | s, n_jobs=1 | ratio of -1: median | least | most |\n| --- | --- | --- | --- | --- |")
        for size in map(int, given.sizes.split(",")):
            ones, all_cores = ratios(size, given.rounds)
            print(
                f"| {size} | {statistics.median(ones):.2f} | {statistics.median(all_cores):.2f} | {min(all_cores):.2f} "
                f"| {max(all_cores):.2f} |",
                flush=True,
            )
    finally:
        busy.kill()
        busy.wait()


if __name__ == "__main__":
    main()
