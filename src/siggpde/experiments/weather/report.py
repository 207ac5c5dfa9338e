"""The report of the weather experiment: scores with intervals, the features, the figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from siggpde.experiments.markdown import duration, markdown_table
from siggpde.experiments.results import Record, Results
from siggpde.experiments.weather.figures import draw_features, draw_stretch
from siggpde.experiments.weather.scores import MEASURES, Estimate, Forecasts, bootstrap, to_natural

_HEADINGS = {"accuracy": "accuracy %", "nlpp": "NLPP", "auc": "AUC", "brier": "Brier"}
_PERCENTAGES = {"accuracy"}
_DAY = 24 * 60
_READING = (
    "How to read features: one letter is the level of a channel at the end of the window (of a variation: how much the "
    "channel went up and down). a–time is the mean level of a, a–time–time the same with more weight to early readings "
    "and time–a the change of a with more weight to late ones; a–b is the change of b weighted by where a was when it "
    'happened. All are divided by the norm of all features, so that "time" says how little else a window holds. '
    '"Before rain": the mean of the feature before rain minus its mean otherwise, in standard deviations.'
)


def write_report(config: dict[str, Any], results: Results) -> str:
    """The report in Markdown; the figures are written into the folder of the results."""
    test = results.get("test")
    runs = {name: list(results.records(f"run/{name}/").values()) for name in config["methods"]}
    runs = {name: records for name, records in runs.items() if records}
    if test is None or not runs:
        raise ValueError(f"{results.folder} holds no results of the weather experiment; run it first")
    names = {name: config["methods"][name]["name"] for name in runs}
    sections = [_data(config, test, runs)]
    for title, sample in (
        (f"Thinned test, {config['data']['ratio']} dry windows for a wet one:", thinned_forecasts),
        ("Test at the natural rate, every hour foretold once, log-odds corrected for the thinning:", natural_forecasts),
    ):
        by_method = {name: [sample(record, test) for record in records] for name, records in runs.items()}
        single, pairs = bootstrap(by_method, **config["bootstrap"])
        sections += [title, _scores(names, single), _differences(config, names, pairs)]
    sections.append(_intervals(config, runs))
    ours = [name for name in names if config["methods"][name]["kind"] == "signature"]
    if ours:
        sections += [_stretch(config, results, runs[ours[-1]][0], test), _READING]
    for name in ours:
        sections += _features(names[name], name, results, runs[name][0])
    sections.append(_costs(names, runs))
    sections.append("\n".join(f"- {note}" for note in config.get("notes", [])))
    return "\n\n".join(section for section in sections if section) + "\n"


def thinned_forecasts(record: Record, _test: Record) -> Forecasts:
    """Forecasts for the test thinned as the training was, whose log-odds need no correction."""
    wet = np.array(record["thinned_wet"], dtype=bool)
    return Forecasts(np.array(record["thinned"]), wet, np.array(record["thinned_day"]))


def natural_forecasts(record: Record, test: Record) -> Forecasts:
    """Forecasts at the natural rate, corrected for the dry windows that training left out."""
    wet, day = np.array(test["wet"], dtype=bool), np.array(test["minutes"]) // _DAY
    return Forecasts(to_natural(np.array(record["natural"]), record["kept"]), wet, day)


def _data(config: dict[str, Any], test: Record, runs: dict[str, list[Record]]) -> str:
    data, windows = config["data"], test["windows"]
    record = next(iter(runs.values()))[0]
    total, wet = record["train"]
    lines = []
    for part in ("train", "test"):
        w = windows[part]
        lines.append(
            f"{data[part]} has {w['all']:,} windows, {w['wet']} of them followed by more than {data['more_than']:g} mm "
            f"in {data['ahead'] * 10} minutes; {w['crossing']} more would cross a gap or a repeated stamp, and "
            f"{w['missing']} have a reading missing: these are left out."
        )
    return (
        f"Channels {', '.join(data['channels'])}, {data['length']} readings ten minutes apart. {' '.join(lines)} "
        f"A run trains with {total} windows, {wet} wet and {total - wet} dry ones drawn at random, "
        f"{record['kept']:.1%} of the dry ones. The test at the natural rate has {len(test['wet']):,} windows, "
        f"{sum(test['wet'])} wet."
    )


def _scores(names: dict[str, str], single: dict[str, dict[str, Estimate]]) -> str:
    rows = [[names[name], *(_cell(estimates[m], m) for m in MEASURES)] for name, estimates in single.items()]
    return markdown_table(["method", *(_HEADINGS[m] for m in MEASURES)], rows)


def _differences(config: dict[str, Any], names: dict[str, str], pairs: dict[tuple[str, str], Estimate]) -> str:
    rows = [
        [f"{names[one]} minus {names[other]}", _cell(estimate, "nlpp", sign="+")]
        for (one, other), estimate in pairs.items()
        if config["methods"][one]["kind"] == "signature" and config["methods"][other]["kind"] != "signature"
    ]
    return markdown_table(["difference in NLPP", "below 0: the first is better"], rows) if rows else ""


def _cell(estimate: Estimate, measure: str, sign: str = "") -> str:
    factor, digits = (100, 2) if measure in _PERCENTAGES else (1, 4)
    value, low, high = (
        f"{factor * number:{sign}.{digits}f}" for number in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def _intervals(config: dict[str, Any], runs: dict[str, list[Record]]) -> str:
    count = max(len(records) for records in runs.values())
    return (
        f"Means over {count} run{'s' if count > 1 else ''}, each with dry windows of its own; in brackets intervals of "
        f"{config['bootstrap']['level']:.0%} by a bootstrap over days, {config['bootstrap']['samples']} samples, the "
        "same days for all methods."
    )


def _stretch(config: dict[str, Any], results: Results, record: Record, test: Record) -> str:
    first, last = test["stretch"]
    days = np.array(test["minutes"]) // _DAY
    shown = (days >= first) & (days <= last)
    minutes, rain = np.array(test["minutes"])[shown], np.array(test["rain"])[shown]
    ends = (np.array(record["band"][end]) for end in ("low", "high"))
    curves = [to_natural(values, record["kept"]) for values in (np.array(record["natural"])[shown], *ends)]
    files = draw_stretch(minutes, rain, *curves, more_than=config["data"]["more_than"], folder=results.folder)
    return f"![Probability of rain along the test, with the rain that fell]({files[0]})"


def _features(title: str, name: str, results: Results, record: Record) -> list[str]:
    features = record["features"]
    files = draw_features(features, title, results.folder, f"weather-features-{name}")
    rows = [[each["name"], f"{each['share']:.2%}", _signed(each["before_rain"])] for each in features]
    return [
        f"{title}, the {len(rows)} most important signature features of the first run:",
        markdown_table(["feature", "share of the importance", "before rain"], rows),
        f"![{title}: the most important signature features]({files[0]})",
    ]


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"


def _costs(names: dict[str, str], runs: dict[str, list[Record]]) -> str:
    means = {name: float(np.mean([record["cpu_seconds"] for record in records])) for name, records in runs.items()}
    listed = ", ".join(f"{names[name]} {duration(seconds)}" for name, seconds in means.items())
    return f"CPU time of a fit, the choice of settings included: {listed}."
