"""`siggpde reproduce`: the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from siggpde.cli.console import Interrupted, one_line_errors
from siggpde.cli.options import argument, option
from siggpde.utils.files import check_replaceable

Experiment = Literal["pendigits", "scales", "whales", "crops", "million", "weather", "complexity", "all"]


_NAMES = "pendigits, scales, whales, crops, million, weather, complexity, or all of them."
_RUNS = "How often each method runs; by default as the settings say."
_ONLY = "Compute only this method, size or part (such as time); may be repeated."
_SETTINGS = "Other settings of the experiment: authors, as the paper's authors ran it."
_BUDGET = "CPU time that one run of a method may take; by default it has no limit."


@one_line_errors()
def reproduce(
    name: Annotated[Experiment, argument(_NAMES, "NAME")],
    output: Annotated[Path | None, option("Where results go; by default results/NAME.", "FOLDER")] = None,
    runs: Annotated[int | None, option(_RUNS, "N", min=1)] = None,
    quick: Annotated[bool, option("A few minutes instead of hours.", name="--quick")] = False,
    budget: Annotated[float | None, option(_BUDGET, "SECONDS", min=1.0)] = None,
    only: Annotated[list[str] | None, option(_ONLY, "PART")] = None,
    jobs: Annotated[int, option("Runs at the same time, each on one thread.", "N", min=1)] = 1,
    settings: Annotated[str | None, option(_SETTINGS, "NAME")] = None,
    config: Annotated[Path | None, option("A TOML file of your settings.", "FILE", exists=True, dir_okay=False)] = None,
) -> None:
    """Run an experiment of the SigGPDE paper: accuracy, NLPP and time of SigGPDE and of the GPSig baselines.

    The command writes results.json, report.md (its tables next to those of the paper) and the figures as PNG and SVG,
    and prints the report. If the folder has results, it goes on where an earlier call stopped.
    """
    from siggpde_paper.experiments import folder_of, reproduce_all
    from siggpde_paper.experiments import reproduce as run

    everything = name == "all"
    if everything and (config is not None or only or settings):
        raise ValueError("--settings, --config and --only are for one experiment; name it instead of all")
    if settings is not None and config is not None:
        raise ValueError("--settings and --config exclude each other; leave out one of them")
    folder = output or (Path("results") if everything else folder_of(name, quick=quick, variant=settings))
    for file in ("results.json", "report.md"):
        check_replaceable(folder / file, [config])
    limits = {"runs": runs, "quick": quick, "budget": budget, "jobs": jobs}
    try:
        if everything:
            report = reproduce_all(folder, **limits)
        else:
            report = run(name, folder, **limits, variant=settings, config=config, only=only or ())
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; the same command goes on from what is in {folder}") from None
    typer.echo(report, nl=False)
