"""What `siggpde report` does, and `--report` of other commands."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siggpde.cli.data import has_test_part, read_series
from siggpde.cli.options import ReadOptions, join_names
from siggpde.cli.work.predict import check_layout, open_model
from siggpde.estimators.classification import ClassifierMethods
from siggpde.estimators.targets import as_classes
from siggpde.io import SeriesData
from siggpde.io.data import errors_by_id
from siggpde.report.gather import write_report


@dataclass(frozen=True)
class PageSettings:
    """The title of a page, None for that of model and data; how many series of a kind are explained; and the seed."""

    title: str | None = None
    explained: int = 2
    seed: int = 0


_USUAL = PageSettings()


def run_report(
    model: Path,
    data: str,
    output: Path,
    read_options: ReadOptions,
    settings: PageSettings,
    *,
    labels: bool,
    device: str,
    jobs: int | None,
) -> None:
    """Writes the page of a saved model and of the series of DATA."""
    estimator = open_model(model, device, jobs)
    remembered = getattr(estimator, "reading_", {})
    grouped = read_options.groups is not None
    series = read_series(data, read_options, "test", remembered, labels=labels, training=grouped)
    check_layout(estimator, data, series)
    write_page(estimator, series, output, model, data, read_options, settings)


def write_page(
    estimator: Any,
    series: SeriesData,
    output: Path,
    model: Path,
    data: str,
    read_options: ReadOptions,
    settings: PageSettings = _USUAL,
) -> None:
    """Writes the page of an estimator, which is saved as `model`, and of series that were read from `data`."""
    y = series.y
    if y is not None and isinstance(estimator, ClassifierMethods):
        y = as_classes(y, estimator.classes_)  # which a file may have in another type
    ids = None if series.ids is None else series.ids.tolist()
    with errors_by_id(ids):
        write_report(
            estimator,
            series.X,
            y,
            output,
            groups=series.groups,
            ids=ids,
            title=settings.title or f"{model.name} on {series.name}",
            explained=settings.explained,
            seed=settings.seed,
            force=True,  # the command has checked the file
            source=_source(data, series),
            commands=[("In a shell", _command(model, data, output, read_options, settings))],
        )


def run_fit_report(
    estimator: Any, series: SeriesData, output: Path, model: Path, data: str, read_options: ReadOptions
) -> None:
    """The page of a model that was just fitted to `series`: of the test series where DATA has some."""
    if has_test_part(data, read_options):
        remembered = getattr(estimator, "reading_", {})
        series = read_series(data, read_options, "test", remembered)
    write_page(estimator, series, output, model, data, read_options)


def _source(data: str, series: SeriesData) -> list[tuple[str, str]]:
    rows = [("data", series.name)]
    path = Path(data)
    if path.is_file():
        with path.open("rb") as file:
            rows += [("file", path.name), ("SHA-256 of the file", hashlib.file_digest(file, "sha256").hexdigest())]
    return rows


def _command(model: Path, data: str, output: Path, read_options: ReadOptions, settings: PageSettings) -> str:
    """The command that writes the page again. Options of reading that the model remembers need not be said."""
    words = ["siggpde", "report", model.name, Path(data).name, "--output", output.name]
    for name, value in read_options.given().items():
        words += [f"--{name.replace('_', '-')}", join_names(value) if isinstance(value, list) else str(value)]
    if settings.explained != _USUAL.explained:
        words += ["--explained", str(settings.explained)]
    if settings.seed != _USUAL.seed:
        words += ["--seed", str(settings.seed)]
    return shlex.join(words)
