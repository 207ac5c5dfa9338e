"""Measurements repeated in passes over all of them, of which the least counts.

Calls of one measurement follow one another within seconds, while other programs disturb a machine for minutes: passes
meet it in other states.
"""

from __future__ import annotations

from collections.abc import Callable

from siggpde.experiments.results import Record, Results


def measure(results: Results, key: str, number: int, compute: Callable[[], Record]) -> None:
    """Stores what a pass, numbered from 0, measured; once."""
    results.once(_key(key, number), compute)


def least(results: Results, key: str) -> Record | None:
    """Of every number the least of all passes; None where there was none."""
    records: list[Record] = []
    while (record := results.get(_key(key, len(records)))) is not None:
        records.append(record)
    if not records:
        return None
    return {name: min(record[name] for record in records) for name in records[0]}


def _key(key: str, number: int) -> str:
    return key if number == 0 else f"{key} again {number}"
