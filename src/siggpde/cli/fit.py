"""`siggpde fit`: its options."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from siggpde.cli import options
from siggpde.cli.config import read_config
from siggpde.cli.console import WrongCall, check_output_file, note, one_line_errors, print_json, print_tables
from siggpde.cli.imports import without_collections
from siggpde.cli.report import SUFFIXES
from siggpde.gp.likelihood_names import LikelihoodName


class Task(StrEnum):
    auto = "auto"
    classification = "classification"
    regression = "regression"


class Method(StrEnum):
    views = "views"
    paper = "paper"


class ClassWeight(StrEnum):
    balanced = "balanced"


class DType(StrEnum):
    auto = "auto"
    float32 = "float32"
    float64 = "float64"


_MODEL = "The model"
_RUN = "The run"


@options.reads_data
def fit(
    data: options.Data,
    output: Annotated[Path, typer.Option(metavar="MODEL", help="The folder to save the model in.")],
    read_options: options.ReadOptions = options.NOT_GIVEN,
    groups: options.Groups = None,
    groups_by_time: options.GroupsByTime = None,
    sample_weight: options.SampleWeight = None,
    task: Annotated[
        Task,
        typer.Option(
            metavar="NAME", help="classification, regression, or auto: by the targets.", rich_help_panel=_MODEL
        ),
    ] = Task.auto,
    method: Annotated[
        Method,
        typer.Option(
            metavar="NAME", help="views, or paper: SigGPDE as published, trained for long.", rich_help_panel=_MODEL
        ),
    ] = Method.views,
    likelihood: Annotated[
        LikelihoodName,
        typer.Option(
            metavar="NAME",
            help="auto: in closed form; for --method paper robustmax, for two classes bernoulli, or gaussian. With "
            "--method paper also softmax for classes, student_t and poisson for numbers.",
            rich_help_panel=_MODEL,
        ),
    ] = LikelihoodName.auto,
    members: Annotated[
        str, typer.Option(metavar="N|auto", help="How many models are averaged.", rich_help_panel=_MODEL)
    ] = "auto",
    n_features: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="At most so many signature features a model; auto: 2000, for paper 500.",
            rich_help_panel=_MODEL,
        ),
    ] = "auto",
    class_weight: Annotated[
        ClassWeight | None, typer.Option(help="Rare classes count as much as common ones.", rich_help_panel=_MODEL)
    ] = None,
    mask: Annotated[
        bool, typer.Option("--mask", help="Tell the model where values are missing.", rich_help_panel=_MODEL)
    ] = False,
    max_points: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Longer series are averaged down to it; 0: never.", rich_help_panel=_MODEL
        ),
    ] = 1000,
    max_iter: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="Iterations of a phase with --method paper; auto: 5000.",
            rich_help_panel=_MODEL,
        ),
    ] = "auto",
    dtype: Annotated[
        DType, typer.Option(help="Of the weights with --method paper.", rich_help_panel=_MODEL)
    ] = DType.auto,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="About when to stop; the best so far is kept.", rich_help_panel=_RUN),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Runs of one seed are the same.", rich_help_panel=_RUN)
    ] = 0,
    device: Annotated[
        str, typer.Option(help="Where to compute: auto, cpu, cuda, cuda:1, ..", rich_help_panel=_RUN)
    ] = "auto",
    jobs: Annotated[int, typer.Option(metavar="N", help="Threads; -1 is one a core.", rich_help_panel=_RUN)] = -1,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a fit of --method paper that was interrupted.", rich_help_panel=_RUN),
    ] = False,
    keep_series: Annotated[
        bool,
        typer.Option(
            "--keep-series/--no-keep-series",
            help="Whether the model may contain training series; without them it has no views by kernels.",
            rich_help_panel=_MODEL,
        ),
    ] = True,
    cache_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="With --method paper, keep signatures there for later fits of the same series.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="[FILE.html]",
            help="Write a page about the model, by default report.html: of the test series of DATA if it has some, "
            "else of left-out series.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            callback=read_config,
            is_eager=True,
            help="Options by their names, alone or in a table called fit; those given here win.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Learn from labelled series, and save the model.

    With --method paper MODEL.checkpoint has what was reached until the model is saved, and --resume goes on from there.
    """
    with one_line_errors():
        read_options = read_options.beside(groups, groups_by_time, sample_weight)
        if report is not None and os.environ.get("RANK", "0") == "0":  # other ranks write nothing
            check_output_file(report, force, SUFFIXES, "--report")
        settings = {
            "method": method.value,
            "likelihood": likelihood.value,
            "members": _number_or_auto("--members", members, 1),
            "n_features": _number_or_auto("--n-features", n_features, 2),
            "class_weight": None if class_weight is None else class_weight.value,
            "mask": mask,
            "max_points": max_points or None,
            "max_iter": _number_or_auto("--max-iter", max_iter, 1),
            "time_limit": _check_time_limit(time_limit),
            "random_state": seed,
            "device": device,
            "dtype": dtype.value,
            "n_jobs": jobs,
            "cache_dir": cache_dir,
            "keep_series": keep_series,
        }
        with without_collections():
            from siggpde.cli.processes import connected_ranks  # noqa: PLC0415 - torch takes long to import
            from siggpde.cli.work.fit import fit_tables, run_fit  # noqa: PLC0415

        with connected_ranks() as ranks:
            summary = run_fit(
                data, output, read_options, task.value, settings, resume=resume, force=force, ranks=ranks, report=report
            )
        if not ranks.leads:
            return
        if report is not None:
            note(f"the report is in {report}")
        if as_json:
            print_json(summary)
        else:
            print_tables(*fit_tables(summary))


def _number_or_auto(option: str, text: str, minimum: int) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < minimum:
        raise WrongCall(f"{option} takes a whole number from {minimum}, or auto; got {text!r}")
    return int(text)


def _check_time_limit(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise WrongCall(f"--time-limit takes seconds above 0; got {seconds:g}")
    return seconds
