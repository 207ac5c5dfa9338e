"""Rain in the next hour at a weather station, from six hours of readings without the rain itself.

Settings are chosen within the training year, never by the test. Every method of every run predicts log-odds of rain,
which are stored; the report computes scores and intervals from them.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from siggpde_paper.experiments.results import Record, Results
from siggpde_paper.experiments.weather.forecasters import fit_forecaster, rounded
from siggpde_paper.experiments.weather.report import write_report
from siggpde_paper.experiments.weather.windows import Windows, cut_windows, load_station, thin


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Stores a description of the test set, and the log-odds of every method for every thinning of the dry windows.

    The paper's experiment on weather.
    """
    results.once("test", partial(describe_test, config))
    tasks = {
        f"run/{method}/{seed}": partial(
            run_method, config, method, seed, results.folder / "checkpoints" / f"{method}-{seed}.pt"
        )
        for seed in range(runs)
        for method in config["methods"]
    }
    results.compute(tasks, jobs)


def report(config: dict[str, Any], results: Results) -> str:
    """Tables of the scores with their intervals, the features, and the figures, drawn into the folder."""
    return write_report(config, results)


def load_windows(config: dict[str, Any], part: str) -> Windows:
    """All windows of the training or the test file, ten minutes apart."""
    data = config["data"]
    station = load_station(data[part])
    sizes = {"length": data["length"], "ahead": data["ahead"], "more_than": data["more_than"]}
    return cut_windows(station, data["channels"], data["rain"], **sizes)


def describe_test(config: dict[str, Any]) -> Record:
    """The windows of the test at the natural rate, the week to draw, and how many windows were dropped."""
    data = config["data"]
    train, test = load_windows(config, "train"), load_windows(config, "test")
    natural = test.every(data["natural_every"])
    return {
        "minutes": natural.minutes.tolist(),
        "rain": natural.rain.tolist(),
        "wet": natural.wet.astype(int).tolist(),
        "stretch": rainiest(natural, config["figure"]["year"], config["figure"]["days"]),
        "windows": {
            part: {"all": len(w), "wet": int(w.wet.sum()), "crossing": w.crossing, "missing": w.missing}
            for part, w in (("train", train), ("test", test))
        },
    }


def rainiest(windows: Windows, year: int, days: int) -> list[int]:
    """First and last of the `days` consecutive days of a year with the most wet windows; of equal ones the first.

    Where the year has no window, all years count.
    """
    day, years = windows.day, windows.minutes.astype("datetime64[m]").astype("datetime64[Y]").astype(int) + 1970
    inside = years == year
    if not inside.any():
        inside = np.ones_like(inside)
    first, last = int(day[inside].min()), int(day[inside].max())
    wet = np.bincount(day[inside & windows.wet] - first, minlength=last - first + 1)
    total = np.convolve(wet, np.ones(days, dtype=int), "valid") if len(wet) >= days else wet[:1]
    start = first + int(total.argmax())
    return [start, min(start + days - 1, last)]


def run_method(config: dict[str, Any], method: str, seed: int, checkpoint: Path | None = None) -> Record:
    """Log-odds of one method for both test sets, not corrected for the thinning of `seed` it was trained with.

    The model that takes minutes keeps its state in `checkpoint`, from which it goes on after an interruption.
    """
    data = config["data"]
    every = load_windows(config, "train").every(data["train_every"])
    train = every.take(thin(every.wet, data["ratio"], seed))
    test = load_windows(config, "test")
    natural, thinned = test.every(data["natural_every"]), test.every(data["thinned_every"])
    thinned = thinned.take(thin(thinned.wet, data["ratio"], seed))
    started = time.process_time()
    forecaster = fit_forecaster(config, method, train, seed, checkpoint)
    seconds = time.process_time() - started
    record: Record = {
        "facts": forecaster.settings,
        "cpu_seconds": seconds if forecaster.cpu_seconds is None else forecaster.cpu_seconds,
        "kept": float((~train.wet).sum() / (~every.wet).sum()),
        "train": [len(train), int(train.wet.sum())],
        "thinned": rounded(forecaster.log_odds(thinned.x)),
        "thinned_wet": thinned.wet.astype(int).tolist(),
        "thinned_day": thinned.day.tolist(),
        "natural": rounded(forecaster.log_odds(natural.x)),
    }
    if forecaster.describe is not None:
        first, last = rainiest(natural, config["figure"]["year"], config["figure"]["days"])
        record |= forecaster.describe(natural.take((natural.day >= first) & (natural.day <= last)))
    return record
