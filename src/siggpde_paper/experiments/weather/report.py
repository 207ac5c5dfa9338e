"""The report of the weather experiment: scores with intervals, what models say of a week, their features."""

from __future__ import annotations

from typing import Any

import numpy as np

from siggpde_paper.experiments.report import duration, markdown_table
from siggpde_paper.experiments.results import Record, Results
from siggpde_paper.experiments.weather.descriptions import describe_features, describe_stretch
from siggpde_paper.experiments.weather.scores import MEASURES, Estimate, Forecasts, bootstrap, to_natural

_HEADINGS = {"accuracy": "accuracy %", "nlpp": "NLPP", "auc": "AUC", "brier": "Brier"}
_PERCENTAGES = {"accuracy"}
_DAY = 24 * 60


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
    sections.append(_intervals(config, names, runs))
    told = {name: records[0] for name, records in runs.items() if "latent" in records[0]}
    if told:
        sections += [describe_stretch(config, results, told, test), *describe_features(config, results, told)]
    sections += [_training(config, names, runs), _costs(names, runs)]
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
    """Those of the classifier with groups and every other method, then those of the paper's model and the baselines."""
    kinds = {name: config["methods"][name]["kind"] for name in names}
    grouped = [name for name in names if config["methods"][name].get("groups", False)]
    wanted = [(one, other) for one in grouped for other in names if other not in grouped]
    wanted += [
        (one, other)
        for one in names
        for other in names
        if kinds[one] == "paper" and kinds[other] in ("climatology", "logistic")
    ]
    rows = [[f"{names[one]} minus {names[other]}", _cell(pairs[one, other], "nlpp", sign="+")] for one, other in wanted]
    return markdown_table(["difference in NLPP", "below 0: the first is better"], rows) if rows else ""


def _cell(estimate: Estimate, measure: str, sign: str = "") -> str:
    factor, digits = (100, 2) if measure in _PERCENTAGES else (1, 4)
    value, low, high = (
        f"{factor * number:{sign}.{digits}f}" for number in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def _intervals(config: dict[str, Any], names: dict[str, str], runs: dict[str, list[Record]]) -> str:
    count = max(len(records) for records in runs.values())
    fewer = [f"{names[name]} over {len(records)}" for name, records in runs.items() if len(records) < count]
    return (
        f"Means over {count} run{'s' if count > 1 else ''}{''.join(f', of {each}' for each in fewer)}, each with dry "
        f"windows of its own; in brackets intervals of {config['bootstrap']['level']:.0%} by a bootstrap over days, "
        f"{config['bootstrap']['samples']} samples, the same days for all methods."
    )


def _training(config: dict[str, Any], names: dict[str, str], runs: dict[str, list[Record]]) -> str:
    """How the paper's model was trained, with the numbers of these settings."""
    paper = [name for name in runs if config["methods"][name]["kind"] == "paper"]
    if not paper:
        return ""
    settings, schedule = config["paper"], config["paper"]["schedule"]
    parts = []
    for name in paper:
        facts = [record["facts"] for record in runs[name]]
        step = np.mean([np.mean(list(each["seconds_per_iteration"].values())) for each in facts])
        nlpp = np.mean([each["validation_nlpp"] for each in facts])
        parts.append(f"{names[name]}: {duration(float(step))} of CPU an iteration, validation NLPP {nlpp:.4f}")
    return (
        f"The paper's model has M = {settings['inducing']} words and is trained for three phases of "
        f"{schedule['iterations']} iterations with minibatches of {schedule['batch']}; {settings['validation']:.0%} of "
        f"the weeks are its validation part. {'; '.join(parts)}."
    )


def _costs(names: dict[str, str], runs: dict[str, list[Record]]) -> str:
    means = {name: float(np.mean([record["cpu_seconds"] for record in records])) for name, records in runs.items()}
    listed = ", ".join(f"{names[name]} {duration(seconds)}" for name, seconds in means.items())
    return f"CPU time of a fit, the choice of settings included: {listed}."
