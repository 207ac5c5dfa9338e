"""`reproduce`: runs an experiment and writes its results, tables and figures into a folder."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

from siggpde.experiments.config import load_config
from siggpde.experiments.markdown import machine_line
from siggpde.experiments.results import Results
from siggpde.files import atomic_write
from siggpde.plots import require_matplotlib

log = logging.getLogger(__name__)

# The module of every experiment: PenDigits, whale calls, satellite series (Crop), weather, and the complexity table.
_MODULES = {
    "pendigits": "comparison",
    "whales": "comparison",
    "crops": "crops",
    "weather": "weather",
    "complexity": "complexity",
}
NAMES = tuple(_MODULES)
_NOT_IN_RESULTS = ("title", "notes")  # settings that no result depends on


def reproduce(
    name: str,
    folder: str | Path,
    *,
    runs: int | None = None,
    quick: bool = False,
    budget: float | None = None,
    jobs: int = 1,
    config: Path | None = None,
) -> str:
    """Run the experiment `name`, without the runs that `folder` has already, and return its report in Markdown.

    - `runs`: how often each method is run, each time with another seed; by default as the settings say.
    - `quick`: the settings of a few minutes.
    - `budget`: seconds of CPU time that one run of one method may take; by default as the settings say.
    - `jobs`: how many runs are computed at the same time, each on one thread.
    - `config`: a TOML file of settings in place of the experiment's own.

    The folder gets results.json, report.md and the figures as PNG and SVG.
    """
    if name not in _MODULES:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(NAMES)}")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    require_matplotlib("pyplot")  # before hours of work, for it may not be installed
    settings = load_config(name, quick=quick, path=config)
    if budget is not None:
        settings["budget"] = float(budget)
    wanted = settings.pop("runs", 3) if runs is None else runs
    settings.pop("runs", None)  # more runs may be added to a folder
    if wanted < 1:
        raise ValueError(f"runs must be at least 1, got {wanted}")
    results = Results(folder, {key: value for key, value in settings.items() if key not in _NOT_IN_RESULTS})
    module: Any = import_module(f"siggpde.experiments.{_MODULES[name]}")
    module.run(settings, results, wanted, jobs)
    text = _head(name, settings, results, quick, wanted) + module.report(settings, results)
    results.folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(results.folder / "report.md") as file:
        file.write(text.encode())
    log.info("%s written", results.folder / "report.md")
    return text


def _head(name: str, settings: dict[str, Any], results: Results, quick: bool, runs: int) -> str:
    quickly = ", quick settings: not comparable with the paper" if quick else ""
    return (
        f"# {settings['title']}\n\n`siggpde reproduce {name} --runs {runs}{' --quick' if quick else ''}`{quickly}. "
        f"{machine_line(results.installation)}\n\n"
    )
