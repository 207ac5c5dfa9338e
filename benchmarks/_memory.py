"""Extra peak memory of one value and gradient, measured in a process of its own.

Run as `python benchmarks/_memory.py PEER OPTIONS_JSON CAP_GB`; prints megabytes, or a reason on standard error.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
from pathlib import Path

import _cases
import _peers
import torch


def measure(peer: str, options: dict, cap: float = 12.0) -> tuple[float | None, str]:
    """Megabytes that value + gradient of k(X, X) at `MEMORY_SHAPE` adds to the peak, or None and why."""
    command = [sys.executable, str(Path(__file__)), peer, json.dumps(options), str(cap)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["no message"])[-1][:80]
    return float(done.stdout), ""


def main(peer: str, options: str, cap: str) -> None:
    torch.set_num_threads(1)
    library = getattr(_peers, peer)()
    x = _cases.paths("smooth", _cases.MEMORY_SHAPE)
    library.autograd_slope(x[:2, :8].clone(), json.loads(options))()
    limit = int(float(cap) * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    call = library.autograd_slope(x, json.loads(options))
    before = _reset_peak()
    call()
    print(_peak() - before)


def _reset_peak() -> float:
    """Lower the recorded peak to what is held now, so that what imports once took cannot hide the call; megabytes."""
    with contextlib.suppress(OSError):  # without it the difference of peaks is all there is
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
