"""What models say of a week of the test, and which words they rest on: parts of the report with their figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from siggpde_paper.experiments.report import markdown_table
from siggpde_paper.experiments.results import Record, Results
from siggpde_paper.experiments.weather.figures import Bars, Curve, Stretch, draw_features, draw_stretch
from siggpde_paper.experiments.weather.scores import to_natural

_DAY = 24 * 60
_OURS = "sd × |weight|"
_READING = (
    "How to read words: one letter is the change of a channel within the window, or, in views with a base point, its "
    "level at the end (of a variation: how much the channel went up and down). a–time is the mean of a, a–time–time "
    "the same with more weight to early readings and time–a the change of a with more weight to late ones; a–b is the "
    "change of b weighted by where a was when it happened. Without a base point all are relative to the first reading. "
    '"Before rain": the mean of the word before rain minus its mean otherwise, in standard deviations, on the training '
    "windows. m is the mean of q(u), by whose size the paper reads importance; sd is the standard deviation of the "
    "word over the training windows."
)


def describe_stretch(config: dict[str, Any], results: Results, told: dict[str, Record], test: Record) -> str:
    """The figure of the rainiest days, for the first runs `told` of the methods that have latents."""
    first, last = test["stretch"]
    days = np.array(test["minutes"]) // _DAY
    shown = (days >= first) & (days <= last)
    paper = {name: record for name, record in told.items() if "series" in record}
    ours = {name: record for name, record in told.items() if "band" in record}
    panels = [
        Curve.of_latent(f"posterior mean of the latent, {config['methods'][name]['name']}", **record["latent"])
        for name, record in told.items()
    ]
    for name, record in ours.items():
        natural = [np.array(record["natural"])[shown], *(np.array(record["band"][end]) for end in ("low", "high"))]
        corrected = [to_natural(values, record["kept"]) for values in natural]
        panels.append(Curve.of_log_odds(f"probability of rain, {config['methods'][name]['name']}", *corrected))
    stretch = Stretch(
        minutes=np.array(test["minutes"])[shown],
        rain=np.array(test["rain"])[shown],
        more_than=config["data"]["more_than"],
        channels=config["data"]["channels"],
        entering=next((record["series"]["minutes"] for record in paper.values()), 0),
        series=[
            (
                f"a window scaled by {'series' if config['methods'][name]['each'] else 'data set'}",
                np.array(record["series"]["values"]),
            )
            for name, record in paper.items()
        ],
        panels=panels,
    )
    file = draw_stretch(stretch, results.folder)
    return (
        f"![A window as it enters the paper's model, latents and probability of rain along the test]({file})\n\n"
        "Bands are 90 % of the posterior; more than "
        f"{config['data']['more_than']:g} mm fell in the hours on orange ground. Latents are those of the models as "
        "trained, with thinned dry windows; the probability is corrected to the natural rate."
    )


def describe_features(config: dict[str, Any], results: Results, told: dict[str, Record]) -> list[str]:
    """A table of the words of every model and reading, and one figure with a row for each model."""
    rows, sections = [], [_READING]
    for name, record in told.items():
        title, panels = config["methods"][name]["name"], []
        short = _short(config, name)
        for reading, features in record["features"].items():
            measure = "|m|" if reading == "by_size" else "sd × |m|" if "series" in record else _OURS
            shares = [(each["name"], each["share"]) for each in features]
            panels.append(Bars(short, f"words, share of {measure}", shares))
            cells = [[each["name"], f"{each['share']:.2%}", _signed(each["before_rain"])] for each in features]
            sections += [
                f"{title}, the first {len(cells)} words by {measure}, of the first run:",
                markdown_table(["word", "share", "before rain"], cells),
            ]
        if "channels" in record:
            shares = list(record["channels"].items())[: config["figure"]["features"]]
            panels.append(Bars(short, "channels, share of the effects", shares))
        rows.append(panels)
    file = draw_features(rows, results.folder)
    return [*sections, f"![The most important words of the first run, by two readings]({file})"]


def _short(config: dict[str, Any], name: str) -> str:
    """What tells a model that is described from the others."""
    options = config["methods"][name]
    if options["kind"] != "paper":
        return "SigGPClassifier"
    return f"the paper's model, scaled by {'series' if options['each'] else 'data set'}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
