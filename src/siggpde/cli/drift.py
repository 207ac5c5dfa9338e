"""`siggpde drift`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from siggpde.cli import options
from siggpde.cli.console import print_result, summary_table


@options.command
def drift(
    reference: Annotated[str, options.argument("Reference series, such as those of the fit.", "REFERENCE")],
    data: options.Data,
    read_options: options.ReadOptions,
    permutations: Annotated[int, options.option("The smallest p-value is 1 / (N + 1).", "N", min=1)] = 1000,
    max_series: Annotated[int, options.option("Draw N series from a larger set.", "N", min=2)] = 500,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Test whether the series of DATA come from the same source as those of REFERENCE; labels are not needed.

    Both are read with the same options. Where they are names of data sets, REFERENCE stands for the training part and
    DATA for the test part.
    """
    from siggpde.cli.data import options_to_remember, read_series
    from siggpde.estimators import drift as estimator_drift

    old = read_series(reference, read_options, "train", labels=False)
    remembered = options_to_remember(old, read_options)  # channels by name: a table may have another order
    new = read_series(data, read_options, "test", remembered, labels=False)
    if tuple(new.channel_names) != tuple(old.channel_names):
        raise ValueError(
            f"{data} has the channels {', '.join(new.channel_names)}, but {reference} has "
            f"{', '.join(old.channel_names)}; name those to compare with channels="
        )
    result = estimator_drift.drift(
        old.X,
        new.X,
        permutations=permutations,
        max_series=max_series,
        random_state=seed,
        time_channel=old.time_channel,
        channel_names=old.channel_names,
    )
    values = {
        "reference": reference,
        "data": data,
        "permutations": permutations,
        **asdict(result),
        "verdict": result.verdict,
    }
    rows = [
        ("verdict", result.verdict),
        ("series compared", f"{result.n_reference} and {result.n_new}"),
        ("p-value", f"{result.p_value:.4g}"),
        ("MMD²", f"{result.statistic:.4g}"),
        ("largest shift", result.shifted),
    ]
    print_result(values, as_json, lambda: [summary_table(f"{data} against {reference}", rows)])
