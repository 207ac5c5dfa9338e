"""`reproduce`: runs an experiment and writes its results, tables and figures into a folder."""

from __future__ import annotations

import logging
from collections.abc import Collection
from importlib import import_module
from pathlib import Path

from siggpde.plots import require_matplotlib
from siggpde.utils.files import write_bytes
from siggpde_paper.experiments.results import Results, load_config
from siggpde_paper.experiments.tables import machine_line

log = logging.getLogger(__name__)

# The module of every experiment, and its functions that compute the records and write the report.
_EXPERIMENTS = {
    "pendigits": ("comparison", "run", "report"),
    "scales": ("comparison", "run_scales", "report_scales"),
    "whales": ("comparison", "run", "report"),
    "crops": ("comparison", "run", "report"),
    "million": ("comparison", "run_million", "report_million"),
    "weather": ("weather", "run", "report"),
    "complexity": ("complexity", "run", "report"),
}
NAMES = tuple(_EXPERIMENTS)
_NOT_IN_RESULTS = ("title", "notes")  # settings that no result depends on


def reproduce(
    name: str,
    folder: str | Path,
    *,
    runs: int | None = None,
    quick: bool = False,
    budget: float | None = None,
    jobs: int = 1,
    variant: str | None = None,
    config: Path | None = None,
    only: Collection[str] = (),
) -> str:
    """Runs an experiment, without the runs that the folder has already, and returns its report in Markdown.

    Parameters
    ----------
    name : str
        The name of the experiment.
    folder : path
        Gets results.json, report.md and the figures as PNG and SVG.
    runs : int, optional
        How often each method is run, each time with another seed; by default as the settings say.
    quick : bool, default False
        Take the settings of a few minutes.
    budget : float, optional
        CPU seconds of one run of any method by the paper's schedule; by default all take the whole schedule.
    jobs : int, default 1
        How many runs are computed at the same time, each on one thread.
    variant : str, optional
        Other settings of the experiment, such as "authors": those of NAME-authors.toml.
    config : Path, optional
        A TOML file of settings in place of the experiment's own.
    only : collection of str, optional
        Methods, sizes or parts ("time") to compute now; the report has all that the folder has.

    Returns
    -------
    str

    Examples
    --------
    One run of each method, with the settings of a few minutes:

        report = reproduce("pendigits", "results/pendigits", runs=1, quick=True)
    """
    if name not in _EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(NAMES)}")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    require_matplotlib("pyplot")  # before hours of work, for it may not be installed
    settings = load_config(name if variant is None else f"{name}-{variant}", quick=quick, path=config)
    if budget is not None:
        settings["budget"] = float(budget)
    wanted = settings.pop("runs", 3) if runs is None else runs
    settings.pop("runs", None)  # more runs may be added to a folder
    if wanted < 1:
        raise ValueError(f"runs must be at least 1, got {wanted}")
    results = Results(folder, {key: value for key, value in settings.items() if key not in _NOT_IN_RESULTS}, only)
    file, compute, describe = _EXPERIMENTS[name]
    module = import_module(f"siggpde_paper.experiments.{file}")
    getattr(module, compute)(settings, results, wanted, jobs)
    if unknown := sorted(results.only - results.asked):
        known = sorted(part for part in results.asked if " " not in part)  # without the many sizes of complexity
        raise ValueError(f"{name} has no part {', '.join(unknown)}; it has {', '.join(known)}")
    call = f"siggpde reproduce {name}{f' --settings {variant}' if variant else ''} --runs {wanted}"
    call += f" --budget {settings['budget']:g}" if settings.get("budget") is not None else ""
    call = f"`{call} --quick`, quick settings: not comparable with the paper" if quick else f"`{call}`"
    head = f"# {settings['title']}\n\n{call}. {machine_line(results.installation, results.commits)}\n\n"
    text = head + getattr(module, describe)(settings, results)
    results.folder.mkdir(parents=True, exist_ok=True)
    write_bytes(results.folder / "report.md", text.encode())
    log.info("%s written", results.folder / "report.md")
    return text


def reproduce_all(
    folder: str | Path, *, runs: int | None = None, quick: bool = False, budget: float | None = None, jobs: int = 1
) -> str:
    """Run all experiments one after the other, each into its own folder inside `folder`, and return all reports."""
    return "\n".join(
        reproduce(name, folder_of(name, folder, quick), runs=runs, quick=quick, budget=budget, jobs=jobs)
        for name in NAMES
    )


def folder_of(name: str, folder: str | Path = "results", quick: bool = False, variant: str | None = None) -> Path:
    """Where the results of an experiment go inside a folder.

    >>> folder_of("whales", quick=True).as_posix()
    'results/whales-quick'
    """
    return Path(folder) / "-".join([name, *([variant] if variant else []), *(["quick"] if quick else [])])
