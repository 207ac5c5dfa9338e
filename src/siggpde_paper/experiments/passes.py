"""Measurements repeated in passes over all of them, of which the least counts.

Calls of one measurement follow one another within seconds, while other programs disturb a machine for minutes: passes
meet it in other states.
"""

from __future__ import annotations

from siggpde_paper.experiments.results import Record, Results


def pass_key(key: str, number: int) -> str:
    """The key of what a pass measures; passes are numbered from 0.

    Examples:
        >>> pass_key("time/siggpde", 0), pass_key("time/siggpde", 1)
        ('time/siggpde', 'time/siggpde/again 1')
    """
    return key if number == 0 else f"{key}/again {number}"


def least(results: Results, key: str) -> Record | None:
    """Of every number the least of all passes; None where there was none."""
    records: list[Record] = []
    while (record := results.get(pass_key(key, len(records)))) is not None:
        records.append(record)
    if not records:
        return None
    return {name: min(record[name] for record in records) for name in records[0]}
