"""`siggpde report`, and the option --report of other commands."""

from __future__ import annotations

import hashlib
import logging
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer.core import TyperCommand

from siggpde.cli import options
from siggpde.cli.console import check_output_file, print_result
from siggpde.cli.options import ModelCall, as_arguments

if TYPE_CHECKING:
    from siggpde.io import SeriesData

log = logging.getLogger(__name__)

SUFFIXES = (".html", ".htm")
DEFAULT_PAGE = "report.html"
_OTHER_PAGES = (".md", ".pdf", ".txt", ".xhtml")  # after --report these are refused as pages, not read as data
_SETTINGS = {"method", "likelihood", "members", "n_features", "class_weight", "mask", "max_points", "max_iter", "dtype"}
_SETTINGS |= {"time_limit", "keep_series", "exact"}
_FLAGS = {"mask": "--mask", "keep_series": "--no-keep-series"}
_LABELS = "Whether DATA has labels by which to judge predictions."
_GROUPS = "Groups of series, such as persons; each is judged by itself."


class WithReport(TyperCommand):
    """A command with an option --report whose file name may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, name_page(args))


def name_page(arguments: list[str]) -> list[str]:
    """Returns the arguments with a file name after each --report that no name of a page follows."""
    named = []
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        named.append(argument)
        page = following.lower()
        named_page = page.endswith(SUFFIXES) or (page.endswith(_OTHER_PAGES) and not Path(following).exists())
        if argument == "--report" and not named_page:
            named.append(DEFAULT_PAGE)
    return named


@dataclass(frozen=True)
class PageSettings:
    """Options of a page that its own command has; other commands write it with the defaults."""

    title: Annotated[str | None, options.option("The title; by default the names of model and data.", "TEXT")] = None
    explained: Annotated[
        int, options.option("Explain the N most uncertain, most surprising and most novel series.", "N", min=0)
    ] = 2
    seed: options.Seed = 0
    time_as: options.TimesAs = "auto"


_DEFAULTS = PageSettings()


@options.command
def report(
    output: Annotated[Path, options.option("The file to write.", "FILE.html")] = Path(DEFAULT_PAGE),
    *,
    settings: PageSettings,
    labels: Annotated[bool, options.option(_LABELS, name="--labels/--no-labels")] = True,
    groups: Annotated[str | None, options.option(_GROUPS, "COLUMN")] = None,
    call: options.ModelCall,
) -> None:
    """Write a report on a model and DATA: the series, the model, its accuracy, its evidence, and series to look at.

    The report is one HTML file that needs no other.
    """
    from siggpde.cli.data import open_model, series_for

    call = replace(call, read_options=call.read_options.with_groups(groups))
    check_output_file(output, call.force, SUFFIXES, inputs=call.inputs)
    estimator = open_model(call)
    if groups is None and (spans := getattr(estimator, "reading_", {}).get("groups_by_time")):
        call = replace(call, read_options=call.read_options.with_groups(None, spans))
    series = series_for(estimator, call, labels=labels, training=groups is not None, groups=True)
    write_page(estimator, series, output, call, settings)
    if call.as_json:
        print_result({"report": str(output)}, True, list)


def write_page(
    estimator: Any, series: SeriesData, output: Path, call: ModelCall, settings: PageSettings = _DEFAULTS
) -> None:
    """Writes the page of the estimator and of the series that were read by a call."""
    from siggpde.estimators.targets import as_classes
    from siggpde.io.data import errors_by_id
    from siggpde.report.gather import write_report

    y = series.y
    if y is not None and hasattr(estimator, "classes_"):
        y = as_classes(y, estimator.classes_)  # which a file may have in another type
    ids = None if series.ids is None else series.ids.tolist()
    estimator.verbose = 1  # which shows progress
    path, source = Path(call.data), [("data", series.name)]
    if path.is_file():
        with path.open("rb") as file:
            source += [("file", path.name), ("SHA-256 of the file", hashlib.file_digest(file, "sha256").hexdigest())]
    # The page again, without the options of reading that the model remembers.
    words = ["siggpde", "report", call.model.name, path.name, "--output", output.name]
    changed = {name: value for name, value in vars(settings).items() if value != getattr(_DEFAULTS, name)}
    words += ["--no-labels"] * (series.y is None)
    again = shlex.join([*words, *as_arguments(call.read_options.given() | changed)])
    with errors_by_id(ids):
        write_report(
            estimator,
            series,
            y,
            output,
            groups=series.groups,
            ids=ids,
            title=settings.title or f"{call.model.name} on {series.name}",
            explained=settings.explained,
            seed=settings.seed,
            time_as=settings.time_as,
            force=True,  # the command has checked the file
            source=source,
            commands=[("The fit", _fit_command(estimator, call.model)), ("This page", again)],
        )
    log.info("the report is in %s", output)


def _fit_command(estimator: Any, model: Path) -> str:
    """Returns the command that fits the model again, or a line of Python where the command line has no such options."""
    from siggpde.report.gather import changed_values, fit_call

    changed = changed_values(estimator)
    if changed.keys() - _SETTINGS - {"time_channel"}:
        return fit_call(estimator)
    task = "classification" if hasattr(estimator, "classes_") else "regression"
    reading = getattr(estimator, "reading_", None) or {}
    named = {**{key: value for key, value in reading.items() if key != "time_format"}, "task": task}
    named |= {name: value or 0 for name, value in changed.items() if name in _SETTINGS - _FLAGS.keys()}
    named |= {"seed": estimator.random_state} if estimator.random_state else {}
    flags = [flag for name, flag in _FLAGS.items() if name in changed]
    return shlex.join(["siggpde", "fit", "TRAINING-DATA", "--output", model.name, *as_arguments(named), *flags])
