"""How time and memory grow with the length of series; `million.py` has their number.

    python benchmarks/scale.py [--quick] [--threads N] [--json FILE] [--markdown FILE]

Signatures, k(X, X) and its gradient, and fits with defaults and without averaging down, at 50 to 5000 points. Every
cell runs in a process of its own, for its peak of memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from _table import _grid, show_seconds

LENGTHS = (50, 200, 1000, 5000)
# The series of a cell: few, for at 5000 points k(X, X) takes 12.5 million cells each.
KINDS = {"signature": 256, "kernel": 16, "gradient": 16, "fit": 120, "fit without averaging": 120}
_TIMEOUT = 1800
_LEAST_PEAK = 2.0  # megabytes: less is pages that happened to be there


def cell(options: dict[str, Any]) -> dict[str, Any]:
    """What one process measured, or why it could not."""
    command = [sys.executable, *["-S"] * sys.flags.no_site, str(Path(__file__).with_name("_scale_cell.py"))]
    environment = os.environ | {"OMP_NUM_THREADS": str(options["threads"])}
    arguments = [*command, json.dumps(options)]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=_TIMEOUT, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return {"failed": f"longer than {_TIMEOUT} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:80]}
    return json.loads(done.stdout)


def exponent(sizes: list[int], values: list[float | None]) -> str:
    """a where the value grows as size^a between the two largest sizes that were measured; nothing with fewer."""
    known = [(size, value) for size, value in zip(sizes, values, strict=True) if value is not None and value > 0]
    if len(known) < 2:
        return ""
    (size, value), (larger, grown) = known[-2:]
    return f"{math.log(grown / value) / math.log(larger / size):.2f}"


def by_length(lengths: list[int], threads: int) -> tuple[list[str], list[list[str]], list[dict[str, Any]]]:
    head = ["what", "series", *(f"{length} points" for length in lengths), "exponent of time", "of memory"]
    rows, records = [], []
    for kind, n in KINDS.items():
        cells = [cell({"kind": kind, "n": n, "points": length, "threads": threads}) for length in lengths]
        records += [{"what": kind, "series": n, "points": k} | facts for k, facts in zip(lengths, cells, strict=True)]
        shown = [
            facts["failed"] if "failed" in facts else f"{show_seconds(facts['cpu'])}, {_megabytes(facts['peak'])}"
            for facts in cells
        ]
        times, peaks = ([facts.get(key) for facts in cells] for key in ("cpu", "peak"))
        grown = exponent(lengths, [peak if peak is not None and peak >= _LEAST_PEAK else None for peak in peaks])
        rows.append([kind, str(n), *shown, exponent(lengths, times), grown])
        print("  ".join(rows[-1]), flush=True)
    return head, rows, records


def _megabytes(amount: float) -> str:
    return f"{amount / 1024:.2f} GB" if amount >= 1024 else f"{max(amount, 0):.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="at most 1000 points")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    options = parser.parse_args()
    busy = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start"
    head = f"{platform.machine()}, {options.threads} thread(s); {busy}"
    print(head, flush=True)
    headings, rows, records = by_length([50, 200, 1000] if options.quick else [*LENGTHS], options.threads)
    print("\n".join(["", *_grid(headings, rows, markdown=False), ""]), flush=True)
    result, texts = {"head": head, "length": records}, [head, "", *_grid(headings, rows, markdown=True)]
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text("\n".join(texts) + "\n")


if __name__ == "__main__":
    main()
