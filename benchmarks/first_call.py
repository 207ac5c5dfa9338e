"""What the first calls of a process cost, in seconds of CPU (user and system) of processes started for them.

    python benchmarks/first_call.py [--rounds N] [--series N]

A model with the default settings is fitted to random walks and saved; then, in turns, these are run: an empty program,
`import siggpde`, `import torch`, `siggpde --help`, and `siggpde predict` of as many series as it was fitted to, from a
.npz file to a .csv file. The least CPU time of the rounds is shown, for other programs only add to it, and the median.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FIT = """
import sys, numpy as np, siggpde
data = np.load(sys.argv[1])
siggpde.SigGPClassifier(n_jobs=-1).fit(data["X"], data["y"]).save(sys.argv[2])
"""


def cpu_seconds(arguments: list[str]) -> tuple[float, float]:
    """CPU and wall-clock seconds of a program."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - started


def random_walks(n: int) -> dict[str, np.ndarray]:
    """Walks of six channels and 100 points in four classes, the sizes of BasicMotions."""
    random = np.random.default_rng(0)
    y = np.arange(n) % 4
    steps = random.standard_normal((n, 6, 100))
    steps[:, 0] += 0.1 * y[:, None]
    return {"X": steps.cumsum(axis=2), "y": y}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--series", type=int, default=40)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, model, output = (str(Path(folder) / name) for name in ("walks.npz", "model", "predictions.csv"))
        np.savez(data, **random_walks(given.series))
        subprocess.run([sys.executable, "-c", FIT, data, model], check=True)
        programs = {
            "an empty program": ["-c", "pass"],
            "import siggpde": ["-c", "import siggpde"],
            "import torch": ["-c", "import torch"],
            "siggpde --help": ["-m", "siggpde", "--help"],
            f"siggpde predict, {given.series} series": [
                "-m", "siggpde", "predict", model, data, "--output", output, "--force"
            ],
        }  # fmt: skip
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
        load = os.getloadavg()[0]
        for _ in range(given.rounds):
            for name, arguments in programs.items():
                times[name].append(cpu_seconds(arguments))
    print(f"{os.cpu_count()} cores, load average {load:.1f} at the start, {given.rounds} rounds")
    print("| | CPU s, least | median | wall s, least |\n| --- | --- | --- | --- |")
    for name, measured in times.items():
        cpu, wall = zip(*measured, strict=True)
        print(f"| {name} | {min(cpu):.2f} | {statistics.median(cpu):.2f} | {min(wall):.2f} |")


if __name__ == "__main__":
    main()
