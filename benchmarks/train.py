"""Time of training: iterations of the paper's schedule, natural-gradient steps, and q(u) as it grows.

    python benchmarks/train.py [--quick] [--only iteration,natural,state] [--json FILE] [--markdown FILE]

Everything runs on one core, on random series of the shape of the data sets named, and times are the minimum over
rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

import _train_iteration
import _train_natural
import torch
from _train_cases import Grid

from siggpde.numerics.core import core

# Each takes (rounds, quick) and gives one table.
GROUPS: dict[str, Callable[[int, bool], Grid]] = {
    "iteration": _train_iteration.iteration,
    "natural": _train_natural.natural,
    "state": _train_natural.state,
}
# What a table comes down to, a line each, for the groups that have a goal.
SUMMARIES: dict[str, Callable[[Grid], list[str]]] = {"iteration": _train_iteration.summary}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no variants, no large sizes")
    parser.add_argument(
        "--only", default=",".join(GROUPS), metavar="NAME", help="groups to run, such as iteration,natural"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    options = parser.parse_args()
    chosen = options.only.lower().split(",")
    if unknown := set(chosen) - set(GROUPS):
        parser.error(f"--only names {', '.join(sorted(unknown))}; the groups are {', '.join(GROUPS)}")

    torch.set_num_threads(1)
    rounds = 10 if options.quick else 40
    isa = "no native core" if core is None else core.isa()
    busy = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start"
    head = [f"{platform.machine()} ({isa}), torch {torch.__version__}, one core; {busy}"]
    print("\n".join(head), flush=True)
    tables, ends = [], []
    for key in chosen:
        print(key, flush=True)
        table = GROUPS[key](rounds, options.quick)
        ends += SUMMARIES[key](table) if key in SUMMARIES else []
        print("\n".join(table.lines()), flush=True)
        tables.append(table)
    print("\n".join(["", *ends]))
    if options.json:
        result = {"head": head, "tables": [table.as_json() for table in tables], "summary": ends}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.markdown:
        lines = [line for table in tables for line in table.lines(markdown=True)]
        options.markdown.write_text("\n\n".join(head) + "\n" + "\n".join(lines) + "\n\n" + "\n\n".join(ends) + "\n")


if __name__ == "__main__":
    main()
