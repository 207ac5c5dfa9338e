"""The complexity tables of the paper, measured: time and space of the parts of an iteration, and how they grow.

M, length, channels, batch and levels grow, one at a time. A third table tells what is due to the algorithm from what
is due to the language it is written in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from siggpde_paper.experiments import language_table, space_table, time_table
from siggpde_paper.experiments.results import Record, Results

_TABLES = (time_table, language_table, space_table)
_QUICKEST_FIRST = (language_table, space_table, time_table)


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """All measurements, one after the other and at most once; `runs` and `jobs` do not matter to them.

    The keys of times begin with "time", those of memory with "space", and those of whole iterations with "iteration"
    and "peak".
    """
    tasks: dict[str, Callable[[], Record]] = {}
    for number in range(config["passes"]):
        for table in _QUICKEST_FIRST:
            tasks |= table.tasks(config, number)
    results.compute(tasks)


def report(config: dict[str, Any], results: Results) -> str:
    notes = "".join(f"- {note}\n" for note in config.get("notes", []))
    sections = [table.report(config, results) for table in _TABLES]
    return "\n".join(section for section in sections if section) + f"\n{notes}"
