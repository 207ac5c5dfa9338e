"""What `siggpde drift` does."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from siggpde.cli.console import summary_table
from siggpde.cli.data import options_to_remember, read_series
from siggpde.cli.options import ReadOptions
from siggpde.estimators.drift import drift


def run_drift(
    reference: str, data: str, read_options: ReadOptions, permutations: int, max_series: int, seed: int
) -> dict[str, Any]:
    """What `siggpde.drift` finds about the series of DATA beside those of REFERENCE, as plain values."""
    old = read_series(reference, read_options, "train", labels=False)
    # By name: a table may have its columns in another order.
    remembered = options_to_remember(old, read_options)
    new = read_series(data, read_options, "test", remembered, labels=False)
    if tuple(new.channel_names) != tuple(old.channel_names):
        raise ValueError(
            f"{data} has the channels {', '.join(new.channel_names)}, but {reference} has "
            f"{', '.join(old.channel_names)}; name those to compare with channels="
        )
    found = drift(
        old.X,
        new.X,
        permutations=permutations,
        max_series=max_series,
        random_state=seed,
        time_channel=old.time_channel,
        channel_names=old.channel_names,
    )
    return {"reference": reference, "data": data, "permutations": permutations, **asdict(found)}


def drift_table(found: dict[str, Any]) -> Table:
    """The result as a table."""
    rows = [
        ("series compared", f"{found['n_reference']} and {found['n_new']}"),
        ("p-value", f"{found['p_value']:.4g}"),
        ("MMD²", f"{found['statistic']:.4g}"),
        ("largest shift", found["shifted"]),
    ]
    return summary_table(f"{found['data']} beside {found['reference']}", rows)
