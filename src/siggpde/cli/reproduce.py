"""`siggpde reproduce`: the paper's experiments."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from siggpde.cli.console import Interrupted, one_line_errors


class Experiment(StrEnum):
    pendigits = "pendigits"
    scales = "scales"
    whales = "whales"
    crops = "crops"
    million = "million"
    weather = "weather"
    complexity = "complexity"
    all = "all"


@one_line_errors()
def reproduce(
    name: Annotated[
        Experiment,
        typer.Argument(
            metavar="NAME", help="pendigits, scales, whales, crops, million, weather, complexity, or all of them."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where results go; by default results/NAME.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="How often each method is run; by default as the settings say.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few minutes instead of hours.")] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            metavar="SECONDS",
            help="CPU time that one run of any method may take; by default all take the whole schedule.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Compute only this method, size or part (such as time); may be repeated."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time, each on one thread.")] = 1,
    settings: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Other settings of the experiment: authors, as its authors ran it."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A TOML file of your settings.")
    ] = None,
) -> None:
    """Run an experiment of the SigGPDE paper: accuracy, NLPP and time of SigGPDE and of the GPSig baselines.

    Writes results.json, report.md (tables beside the paper's) and the figures as PNG and SVG, and prints the report.
    Called again with the same folder it goes on where it was.
    """
    from siggpde_paper.experiments import folder_of, reproduce_all
    from siggpde_paper.experiments import reproduce as run

    everything = name is Experiment.all
    if everything and (config is not None or only or settings):
        raise ValueError("--settings, --config and --only are for one experiment; name it instead of all")
    if settings is not None and config is not None:
        raise ValueError("--settings and --config exclude each other; leave out one of them")
    folder = output or (Path("results") if everything else folder_of(name.value, quick=quick, variant=settings))
    limits = {"runs": runs, "quick": quick, "budget": budget, "jobs": jobs}
    try:
        if everything:
            report = reproduce_all(folder, **limits)
        else:
            report = run(name.value, folder, **limits, variant=settings, config=config, only=only or ())
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; the same command goes on from what is in {folder}") from None
    typer.echo(report, nl=False)
