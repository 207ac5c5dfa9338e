"""Rain in the next hour at a weather station, from six hours of readings without the rain itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from siggpde.explain import Importance
from siggpde.plots import plot_importance
from siggpde.utils.files import write_bytes
from siggpde_paper.experiments import tables
from siggpde_paper.experiments.results import Record, Results
from siggpde_paper.experiments.weather_models import (
    DAY,
    Windows,
    channel_names,
    cut_windows,
    fit_forecaster,
    load_station,
    rounded,
    thin,
    to_natural,
)

MEASURES = {"accuracy": "accuracy %", "nlpp": "NLPP", "auc": "AUC", "brier": "Brier"}
_BLUE, _GREY, _RAIN, _WET = "#3b6fb6", "#8a8a8a", "#9db8d9", "#d9752b"
_CHANNELS = ("#3b6fb6", "#d9752b", "#2f8f5b", "#8a4fa3", "#b5a21b", "#5bb5c9", "#8a8a8a")
_HOUR = np.timedelta64(60, "m")
_WITHIN = 1.645  # standard deviations on both sides that hold 90 % of a normal distribution
Curve = tuple[str, np.ndarray, np.ndarray, np.ndarray]  # what it is, the line, and the ends of a band, (n,)


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """The paper's experiment on weather: stores a description of the test set, and log-odds by method and thinning."""
    results.once("test", partial(describe_test, config))
    tasks = {
        f"run/{method}/{seed}": partial(
            run_method, config, method, seed, results.folder / "checkpoints" / f"{method}-{seed}.pt"
        )
        for seed in range(runs)
        for method in config["methods"]
    }
    results.compute(tasks, jobs)


def load_windows(config: dict[str, Any], part: str) -> Windows:
    """All windows of the training or the test file, ten minutes apart."""
    data = config["data"]
    station = load_station(data[part])
    sizes = {name: data[name] for name in ("length", "ahead", "more_than", "cumulated") if name in data}
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
    """The first and the last of the `days` consecutive days of a year, or of all, with the most wet windows."""
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
    """Log-odds of one method for both test sets, not corrected for the thinning of `seed` it was trained with."""
    data = config["data"]
    every = load_windows(config, "train").every(data["train_every"])
    train = every.take(thin(every.wet, data["ratio"], seed))
    test = load_windows(config, "test")
    natural, thinned = test.every(data["natural_every"]), test.every(data["thinned_every"])
    thinned = thinned.take(thin(thinned.wet, data["ratio"], seed))
    forecaster = fit_forecaster(config, method, train, seed, checkpoint)
    record: Record = {
        "facts": forecaster.facts,
        "cpu_seconds": forecaster.cpu_seconds,
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


class Forecasts(NamedTuple):
    """Log-odds of rain (n,) for some windows, whether it rained (n,), and the day of the forecast (n,)."""

    log_odds: np.ndarray
    wet: np.ndarray
    day: np.ndarray


def scores(forecasts: Forecasts, counts: np.ndarray | None = None, days: np.ndarray | None = None) -> np.ndarray:
    """Accuracy, NLPP, AUC, half the Brier score of `siggpde.metrics`, (samples, 4), days as often as `counts`."""
    if not forecasts.wet.any() or forecasts.wet.all():
        raise ValueError("all windows are wet, or all are dry; a score needs both kinds")
    days = np.unique(forecasts.day) if days is None else days
    counts = np.ones((1, len(days))) if counts is None else counts
    day_index = np.searchsorted(days, forecasts.day)
    sign = np.where(forecasts.wet, 1.0, -1.0)
    windows = np.stack([
        (forecasts.log_odds > 0) == forecasts.wet,
        -log_expit(sign * forecasts.log_odds),
        (expit(forecasts.log_odds) - forecasts.wet) ** 2,
        np.ones(len(day_index)),
    ])  # fmt: skip
    daily = np.stack([np.bincount(day_index, row, len(days)) for row in windows])
    with np.errstate(invalid="ignore", divide="ignore"):  # samples of days without a window
        right, loss, square, number = (counts @ row for row in daily)
        areas = _areas(forecasts, counts, day_index)
        return np.stack([right / number, loss / number, areas, square / number], axis=1)


def _areas(forecasts: Forecasts, counts: np.ndarray, day_index: np.ndarray) -> np.ndarray:
    """Areas under the ROC curve, (samples,), faster than scikit-learn's for thousands of weights; ties count half."""
    _, group = np.unique(forecasts.log_odds, return_inverse=True)
    size = int(group.max()) + 1
    areas = np.empty(len(counts))
    for sample, count in enumerate(counts):
        weight = count[day_index]
        wet = np.bincount(group, weight * forecasts.wet, size)
        dry = np.bincount(group, weight * ~forecasts.wet, size)
        below = dry.cumsum() - dry / 2
        areas[sample] = (wet @ below) / (wet.sum() * dry.sum()) if wet.any() and dry.any() else np.nan
    return areas


class Estimate(NamedTuple):
    value: float
    low: float
    high: float


def draw_days(count: int, samples: int, seed: int) -> np.ndarray:
    """How often each of `count` days is drawn in samples of `count` days with replacement, (samples, count)."""
    if count < 2 or samples < 1:
        raise ValueError(f"a bootstrap needs two days or more and a sample, got {count} days and {samples} samples")
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=samples)


def bootstrap(
    methods: Mapping[str, Sequence[Forecasts]], *, samples: int, level: float = 0.95, seed: int = 0
) -> tuple[dict[str, dict[str, Estimate]], dict[tuple[str, str], Estimate]]:
    """Percentile intervals of all methods' measures, averaged over runs, and of differences in NLPP, by days."""
    days = np.unique(np.concatenate([run.day for runs in methods.values() for run in runs]))
    counts = draw_days(len(days), samples, seed)
    point = {name: np.mean([scores(run)[0] for run in runs], axis=0) for name, runs in methods.items()}
    drawn = {name: np.mean([scores(run, counts, days) for run in runs], axis=0) for name, runs in methods.items()}
    ends = [(1 - level) / 2, (1 + level) / 2]

    def estimate(value: float, values: np.ndarray) -> Estimate:
        low, high = np.nanquantile(values, ends)
        return Estimate(float(value), float(low), float(high))

    single = {
        name: {m: estimate(point[name][i], drawn[name][:, i]) for i, m in enumerate(MEASURES)} for name in methods
    }
    nlpp = list(MEASURES).index("nlpp")
    pairs = {
        (one, other): estimate(point[one][nlpp] - point[other][nlpp], drawn[one][:, nlpp] - drawn[other][:, nlpp])
        for one in methods
        for other in methods
        if one != other
    }
    return single, pairs


def report(config: dict[str, Any], results: Results) -> str:
    """Tables of the scores with their intervals, the features, and the figures, drawn into the folder."""
    test = results.get("test")
    runs = {name: records for name in config["methods"] if (records := results.runs(f"run/{name}/"))}
    if test is None or not runs:
        raise ValueError(f"{results.folder} holds no results of the weather experiment; run it first")
    names = {name: config["methods"][name]["name"] for name in runs}
    summary = summarise(config, test, runs)
    reduced = {
        "config": results.config, "installation": results.installation, "commits": results.commits, "records": summary
    }  # fmt: skip
    write_bytes(results.folder / "reduced.json", (json.dumps(reduced, indent=1) + "\n").encode())
    described = {name: records[0] for name, records in runs.items() if "latent" in records[0]}
    means = {name: float(np.mean([record["cpu_seconds"] for record in records])) for name, records in runs.items()}
    return tables.render(
        "weather.md",
        config,
        test=test,
        runs=runs,
        names=names,
        first=next(iter(runs.values()))[0],
        count=max(map(len, runs.values())),
        channels=channel_names(config),
        scores="\n\n".join(score_sections(config, summary)),
        stretch=_draw_stretch(config, results, described, test) if described else None,
        features="\n\n".join(describe_features(config, results, described)) if described else None,
        training=_training(config, names, runs),
        costs=[f"{names[name]} {tables.duration(seconds)}" for name, seconds in means.items()],
    )


def score_sections(config: dict[str, Any], summary: Record) -> list[str]:
    """The tables of scores and of differences in NLPP, for both tests, of what `summarise` returns."""
    names, sections = {name: config["methods"][name]["name"] for name in summary["thinned"]["scores"]}, []
    for title, part in (
        (f"Thinned test, {config['data']['ratio']} dry windows for a wet one:", "thinned"),
        ("Test at the natural rate, every hour foretold once, log-odds corrected for the thinning:", "natural"),
    ):
        rows = [
            [names[name], *(_cell(estimates[measure], measure) for measure in MEASURES)]
            for name, estimates in summary[part]["scores"].items()
        ]
        table = tables.markdown_table(["method", *MEASURES.values()], rows)
        sections += [title, table, _differences(config, names, summary[part])]
    return [section for section in sections if section]


def summarise(config: dict[str, Any], test: Record, runs: dict[str, list[Record]]) -> Record:
    """Estimates by test, method and difference, measures of runs, facts and costs: the report without log-odds."""

    def forecasts(record: Record, part: str) -> Forecasts:
        """Those for the test thinned as the training was, or for all of it with log-odds corrected for the thinning."""
        if part == "thinned":
            log_odds, wet, day = (np.array(record[key]) for key in ("thinned", "thinned_wet", "thinned_day"))
        else:
            log_odds, wet = to_natural(np.array(record["natural"]), record["kept"]), np.array(test["wet"])
            day = np.array(test["minutes"]) // DAY
        return Forecasts(log_odds, wet.astype(bool), day)

    summary: Record = {"windows": test["windows"]}
    for part in ("thinned", "natural"):
        by_method = {name: [forecasts(record, part) for record in records] for name, records in runs.items()}
        single, pairs = bootstrap(by_method, **config["bootstrap"])
        summary[part] = {
            "scores": {name: {measure: list(values[measure]) for measure in values} for name, values in single.items()},
            "differences": {f"{one} minus {other}": list(estimate) for (one, other), estimate in pairs.items()},
            "runs": {name: [scores(one)[0].tolist() for one in listed] for name, listed in by_method.items()},
        }
    kept = ("facts", "cpu_seconds", "kept", "train", "features", "channels")
    summary["methods"] = {
        name: [{key: record[key] for key in kept if key in record} for record in records]
        for name, records in runs.items()
    }
    return summary


def _differences(config: dict[str, Any], names: dict[str, str], summary: Record) -> str:
    """The table of differences: of the classifier with groups from the others, of the paper's model from baselines."""
    methods = config["methods"]
    grouped = [name for name in names if methods[name].get("groups", False)]
    paper = [name for name in names if methods[name]["kind"] == "paper"]
    baselines = [name for name in names if methods[name]["kind"] in ("climatology", "logistic")]
    pairs = [(one, other) for one in grouped for other in names if other not in grouped]
    rows = [
        [f"{names[one]} minus {names[other]}", _cell(summary["differences"][f"{one} minus {other}"], "nlpp", sign="+")]
        for one, other in [*pairs, *product(paper, baselines)]
    ]
    return tables.markdown_table(["difference in NLPP", "below 0: the first is better"], rows) if rows else ""


def _cell(estimate: Sequence[float], measure: str, sign: str = "") -> str:
    factor, digits = (100, 2) if measure == "accuracy" else (1, 4)
    value, low, high = (f"{factor * number:{sign}.{digits}f}" for number in estimate)
    return f"{value} [{low}, {high}]"


def _training(config: dict[str, Any], names: dict[str, str], runs: dict[str, list[Record]]) -> list[str]:
    """How the rows of the paper's model were trained."""
    parts = []
    for name in (name for name in runs if config["methods"][name]["kind"] == "paper"):
        facts = [record["facts"] for record in runs[name]]
        step = np.mean([np.mean(list(run["seconds_per_iteration"].values())) for run in facts])
        nlpp = np.mean([run["validation_nlpp"] for run in facts])
        parts.append(f"{names[name]}: {tables.duration(float(step))} of CPU an iteration, validation NLPP {nlpp:.4f}")
    return parts


def _draw_stretch(config: dict[str, Any], results: Results, described: dict[str, Record], test: Record) -> str:
    """Draws the rainiest days, for the first runs `described`: windows as paths, curves, and the rain."""
    from matplotlib import dates, pyplot  # noqa: PLC0415 - not everybody has it

    minutes, rain, more_than = np.array(test["minutes"]), np.array(test["rain"]), config["data"]["more_than"]
    first, last = test["stretch"]
    shown = (minutes // DAY >= first) & (minutes // DAY <= last)
    minutes, rain = minutes[shown], rain[shown]
    curves = _curves(config, described, shown)
    series = {_scaling(config, name): record["series"] for name, record in described.items() if "series" in record}
    rows = len(curves) + 1
    heights = ([2.6] if series else []) + [1.9 * rows]
    figure = pyplot.figure(figsize=(9, sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    letters = iter("abcdefgh")
    if series:
        _draw_series(parts[0], series, channel_names(config), next(letters))
    axes = np.atleast_1d(parts[-1].subplots(rows, 1, sharex=True))
    for ax, (_, line, low, high) in zip(axes[:-1], curves, strict=True):
        _draw_curve(ax, line, low, high, minutes, rain > more_than)
    ax = axes[-1]
    when: Any = minutes.astype("datetime64[m]")
    ax.bar(when + _HOUR // 2, rain, width=1 / 24, color=np.where(rain > more_than, _WET, _RAIN))
    ax.axhline(more_than, color=_GREY, linestyle="--", linewidth=1)
    ax.set_xlim(when[0], when[-1] + _HOUR)
    ax.xaxis.set_major_locator(dates.DayLocator())
    ax.xaxis.set_major_formatter(dates.DateFormatter("%d %b %Y"))
    for ax, title in zip(axes, [*(name for name, *_ in curves), "rain of the hour, mm"], strict=True):
        ax.set_title(f"({next(letters)}) {title}", loc="left", fontsize="small")
    for ax in figure.axes:
        ax.tick_params(labelsize="small")
    return tables.save_figure(figure, results.folder, "weather-stretch")


def _curves(config: dict[str, Any], described: dict[str, Record], shown: np.ndarray) -> list[Curve]:
    """Posterior mean and 90 % of the posterior of every latent, then probabilities, of the windows `shown`."""
    latents: list[Curve] = []
    chances: list[Curve] = []
    for name, record in described.items():
        title, middle = config["methods"][name]["name"], np.array(record["latent"]["mean"])
        half = _WITHIN * np.array(record["latent"]["sd"])
        latents.append((f"posterior mean of the latent, {title}", middle, middle - half, middle + half))
        if "band" in record:
            natural = np.array(record["natural"])[shown], record["band"]["low"], record["band"]["high"]
            line, low, high = (expit(to_natural(np.array(values), record["kept"])) for values in natural)
            chances.append((f"probability of rain, {title}", line, low, high))
    return latents + chances


def _scaling(config: dict[str, Any], name: str) -> str:
    """How the windows of a row of the paper's model are scaled."""
    return f"scaled by {'series' if config['methods'][name]['each'] else 'data set'}"


def _draw_series(part: Any, series: dict[str, Record], channels: Sequence[str], letter: str) -> None:
    axes = np.atleast_1d(part.subplots(1, len(series)))
    when = np.datetime64(next(iter(series.values()))["minutes"], "m").item()
    for index, (ax, (scaling, window)) in enumerate(zip(axes, series.items(), strict=True)):
        values = np.array(window["values"])  # (1 + channels, length), time first
        hours = (np.arange(values.shape[1]) - values.shape[1] + 1) / 6
        for name, row, colour in zip(channels, values[-len(channels) :], _CHANNELS, strict=False):
            ax.plot(hours, row, color=colour, linewidth=1.2, label=name)
        ax.set_title(f"a window {scaling}" if index else f"({letter}) a window {scaling}", loc="left", fontsize="small")
        ax.set_xlabel(f"hours from {when:%H:%M on %-d %b %Y}", fontsize="small")
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize="small")


def _draw_curve(
    ax: Any, line: np.ndarray, low: np.ndarray, high: np.ndarray, minutes: np.ndarray, wet: np.ndarray
) -> None:
    when: Any = minutes.astype("datetime64[m]")
    for moment in when[wet]:
        ax.axvspan(moment, moment + _HOUR, color=_WET, alpha=0.25, linewidth=0)
    # A forecast is drawn in the middle of the hour it is for; the line breaks where windows are missing.
    middle, gaps = when + _HOUR // 2, np.diff(minutes) > 60
    for run in np.split(np.arange(len(when)), np.flatnonzero(gaps) + 1):
        ax.fill_between(middle[run], low[run], high[run], color=_BLUE, alpha=0.2, linewidth=0)
        ax.plot(middle[run], line[run], color=_BLUE, linewidth=1.3)


def describe_features(config: dict[str, Any], results: Results, described: dict[str, Record]) -> list[str]:
    """A table of the words of every model and reading, and one figure of their bars with a row for each model."""
    rows: list[list[tuple[str, str, list[tuple[str, float]]]]] = []  # of panels: title, label, names with shares
    sections: list[str] = []
    for name, record in described.items():
        method, panels = config["methods"][name], []
        short = "SigGPClassifier"
        if method["kind"] == "paper":
            short = f"the paper's model, {method.get('short') or _scaling(config, name)}"
        for reading, features in record["features"].items():
            measure = "|m|" if reading == "by_size" else "sd × |m|" if "series" in record else "sd × |weight|"
            panels.append((short, f"words, share of {measure}", [(word["name"], word["share"]) for word in features]))
            cells = []
            for word in features:
                before = word["before_rain"]
                cells.append([word["name"], f"{word['share']:.2%}", "–" if before is None else f"{before:+.2f}"])
            sections += [
                f"{method['name']}, the first {len(cells)} words by {measure}, of the first run:",
                tables.markdown_table(["word", "share", "before rain"], cells),
            ]
        if "channels" in record:
            shares = list(record["channels"].items())[: config["figure"]["features"]]
            panels.append((short, "channels, share of the effects", shares))
        rows.append(panels)
    columns = max(map(len, rows))
    figure, axes = tables.subplots(len(rows), columns, (4.2 * columns, 3.3 * len(rows)))
    for row, panels in zip(axes, rows, strict=True):
        for ax in row[len(panels) :]:
            ax.remove()
        for ax, (title, label, shares) in zip(row, panels, strict=False):
            plot_importance([Importance(name, (), share, share) for name, share in shares], ax)
            ax.set_title(title, loc="left", fontsize="small")
            ax.set_xlabel(label, fontsize="small")
            ax.tick_params(labelsize="small")
            ax.locator_params(axis="x", nbins=5)
            ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    file = tables.save_figure(figure, results.folder, "weather-features")
    return [*sections, f"![The most important words of the first run, by two readings]({file})"]
