"""Rain in the next hour at a weather station, from six hours of readings without the rain itself.

Settings are chosen by leaving out weeks of the training year, never by the test. Every method of every run predicts
log-odds of rain, which are stored; the report computes scores and intervals from them.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from siggpde import SigGPClassifier
from siggpde.ensemble.committee import Committee
from siggpde.experiments.results import Record, Results
from siggpde.experiments.weather.block_committee import logit_quantiles
from siggpde.experiments.weather.forecasters import Forecaster, as_batch, climatology, logistic, signature_gp
from siggpde.experiments.weather.report import write_report
from siggpde.experiments.weather.windows import Windows, cut_windows, load_station, thin
from siggpde.explain import Importance, global_importance
from siggpde.explain.word_terms import word_features
from siggpde.paths import SeriesBatch

_BAND = (0.05, 0.95)


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Stores a description of the test set, and the log-odds of every method for every thinning of the dry windows.

    The paper's experiment on weather.
    """
    results.once("test", partial(describe_test, config))
    tasks = {
        f"run/{method}/{seed}": partial(run_method, config, method, seed)
        for seed in range(runs)
        for method in config["methods"]
    }
    results.compute(tasks, jobs)


def report(config: dict[str, Any], results: Results) -> str:
    """Tables of the scores with their intervals, the features, and both figures, drawn into the folder."""
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


def run_method(config: dict[str, Any], method: str, seed: int) -> Record:
    """Log-odds of one method for both test sets, not corrected for the thinning of `seed` it was trained with."""
    data = config["data"]
    every = load_windows(config, "train").every(data["train_every"])
    train = every.take(thin(every.wet, data["ratio"], seed))
    test = load_windows(config, "test")
    natural, thinned = test.every(data["natural_every"]), test.every(data["thinned_every"])
    thinned = thinned.take(thin(thinned.wet, data["ratio"], seed))
    started = time.process_time()
    forecaster = _fit(config, method, train, seed)
    seconds = time.process_time() - started
    record: Record = {
        "facts": forecaster.settings,
        "cpu_seconds": seconds,
        "kept": float((~train.wet).sum() / (~every.wet).sum()),
        "train": [len(train), int(train.wet.sum())],
        "thinned": _rounded(forecaster.log_odds(thinned.x)),
        "thinned_wet": thinned.wet.astype(int).tolist(),
        "thinned_day": thinned.day.tolist(),
        "natural": _rounded(forecaster.log_odds(natural.x)),
    }
    if forecaster.committee is not None:
        first, last = rainiest(natural, config["figure"]["year"], config["figure"]["days"])
        shown = natural.take((natural.day >= first) & (natural.day <= last))
        band = logit_quantiles(forecaster.committee, as_batch(shown.x), _BAND)
        record["band"] = {"low": _rounded(band[:, 0]), "high": _rounded(band[:, 1])}
        record["features"] = important(config, forecaster.committee, train)
    return record


def _fit(config: dict[str, Any], method: str, train: Windows, seed: int) -> Forecaster:
    options = config["methods"][method]
    blocks = train.day // config["data"]["block_days"]
    if options["kind"] == "climatology":
        return climatology(train.wet)
    if options["kind"] == "logistic":
        return logistic(train.x, train.wet, blocks, config["logistic"]["strengths"])
    if options["kind"] == "signature":
        return signature_gp(train.x, train.wet, blocks, config["signature"] | options.get("settings", {}))
    if options["kind"] == "classifier":
        classifier = SigGPClassifier(n_features=config["signature"]["words"], random_state=seed)
        classifier.fit(train.x, train.wet, groups=blocks if options.get("groups", False) else None)
        facts = {} if classifier.n_groups_ is None else {"groups": classifier.n_groups_}
        return Forecaster(lambda x: _log_ratio(classifier.predict_proba(x)), facts)
    known = "climatology, logistic, signature, classifier"
    raise ValueError(f"the kind of the method {method!r} is {options['kind']!r}, which is none of {known}")


def _log_ratio(probabilities: np.ndarray) -> np.ndarray:
    return np.log(probabilities[:, 1]) - np.log(probabilities[:, 0])


def important(config: dict[str, Any], committee: Committee, train: Windows) -> list[Record]:
    """The most important signature features on the training windows, and how they differ before rain.

    `before_rain` is the mean of the feature before rain minus its mean otherwise, in standard deviations; None for one
    that does not vary. It is computed for the first member that has the feature.
    """
    batch, names = as_batch(train.x), config["data"]["channels"]
    importances = global_importance(committee, batch, names, config["figure"]["features"])
    return [
        {"name": each.name, "letters": each.letters, "importance": each.importance, "share": each.share,
         "before_rain": _before_rain(committee, each, batch, names, train.wet)}
        for each in importances
    ]  # fmt: skip


def _before_rain(
    committee: Committee, feature: Importance, batch: SeriesBatch, names: list[str], wet: np.ndarray
) -> float | None:
    for member in committee.members:
        spelled = member.transform.names(names)
        words = [tuple(spelled[letter] for letter in word) for word in member.model.features.words]
        if feature.letters in words:
            features = word_features(member.model, member.paths(batch)).detach().numpy()
            value = features[:, words.index(feature.letters)]
            spread = float(value.std())
            if spread <= 1e-9 * float(np.abs(value).max()):  # constant but for rounding
                return None
            return float(value[wet].mean() - value[~wet].mean()) / spread
    raise ValueError(f"no member spells the feature {feature.name!r}")


def _rounded(values: np.ndarray) -> list[float]:
    return values.round(5).tolist()
