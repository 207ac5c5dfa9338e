"""`siggpde explain`."""

from __future__ import annotations

import io
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from siggpde.cli import options
from siggpde.cli.console import WrongCall, check_output_file, column_table, print_result, summary_table
from siggpde.utils.files import write_bytes

if TYPE_CHECKING:
    import numpy as np

    from siggpde.estimators.loading import Predictor
    from siggpde.explain import Counterfactual, Importance, SeriesExplanation
    from siggpde.io import SeriesData

log = logging.getLogger(__name__)

_BACKGROUND = 200
_MOST_CHANNELS = 8  # in a picture
_CHANNEL = 1.0  # inches of height
_SIDE_BY_SIDE = 4  # classes; more have one table of their strongest evidence
_SURE = 0.9
_VIEWS = 8
_WHERE = ("channel", "does", "when")

_PARTS = (
    ("channels", "Channels", "channel"),
    ("regions", "Time regions", "when"),
    ("scales", "Window scales", "scale"),
    ("facts", "Facts beside the series", "fact"),
)
_NUMBER = "Explain the prediction of this series, counted from 0."
_COUNTERFACTUAL = "With --number: the smallest change that turns the prediction."
_PAPER = "Of --method paper: the words with the largest weights |m|."
_PLOT = "Draw the importance, or with --number the series."
_MORE_MODELS = "With --paper: a model of another seed, which may have other words; may be repeated."


@options.command
def explain(
    top: Annotated[int, options.option("The number of words to show.", "N", min=1)] = 10,
    number: Annotated[int | None, options.option(_NUMBER, "N", min=0)] = None,
    counterfactual: Annotated[bool, options.option(_COUNTERFACTUAL, name="--counterfactual")] = False,
    paper: Annotated[bool, options.option(_PAPER, name="--paper")] = False,
    more_models: Annotated[list[Path] | None, options.option(_MORE_MODELS, "MODEL", "--another")] = None,
    plot: Annotated[Path | None, options.option(_PLOT, "FILE.png")] = None,
    *,
    time_as: options.TimesAs = "auto",
    call: options.CallOfModel,
) -> None:
    """Show the importance of channels, time regions, scales of windows, words and views, overall and for each class.

    A word is a sequence of channels that move one after the other. --number shows the evidence for and against the
    prediction of one series, by channel and stretch of time, compared with other series of DATA. --counterfactual adds
    the change of one stretch that turns this prediction into the runner-up. --paper ranks words by the size of their
    weights, as the SigGPDE paper does.
    """
    check_output_file(plot, call.force, (".png",), "--plot", call.inputs)
    from siggpde.cli.data import open_model, series_for
    from siggpde.plots import require_matplotlib

    if plot is not None:  # before any work, for it may not be installed
        require_matplotlib("figure")
    if more_models and not paper:
        raise WrongCall("--another is for the words of --paper; add it, or leave --another out")
    if paper and number is not None:
        raise WrongCall("--paper is about a model and --number about one series; leave out one of them")
    if paper:
        _explain_as_the_paper(call, top, more_models or [], plot)
        return
    if call.data is None:
        raise WrongCall("DATA is missing: only --paper explains a model without series")
    if counterfactual and number is None:
        raise WrongCall("--counterfactual is for one series; name it with --number")
    estimator = open_model(call)
    if counterfactual and not hasattr(estimator, "classes_"):
        raise WrongCall("--counterfactual is for classes; for numbers call counterfactual(x, target) in Python")
    series = series_for(estimator, call, labels=False)
    values: dict[str, Any] = {"data": series.name, "model": str(call.model)}
    if number is None:
        importances = estimator.importance(series, top, time_as=time_as)
        values |= importances.to_dict()
        if plot is not None:
            parts = {title.lower(): getattr(importances, part) for part, title, _ in _PARTS} | {
                "words": importances.words
            }
            write_bytes(plot, _panels([(title, bars) for title, bars in parts.items() if bars], ""))
    else:
        if number >= len(series):
            raise WrongCall(f"--number {number} is beyond the last series, {len(series) - 1} (they are counted from 0)")
        step = max(1, len(series) // _BACKGROUND)
        others = [index for index in range(0, len(series), step) if index != number][:_BACKGROUND]
        background = series[others] if others else None
        (explanation,) = estimator.explain(series[number : number + 1], top, background, time_as=time_as)
        values |= replace(explanation, series=number).to_dict()
        if series.ids is not None:
            values["id"] = series.ids.tolist()[number]
        x, change = series.X[number], None
        if counterfactual:
            donors = _donors(estimator, series, number, values)
            change = estimator.counterfactual(series[number : number + 1], donors=donors, time_as=time_as)
            values["counterfactual"] = change.to_dict() | {"sentence": str(change)}
        if plot is not None:
            write_bytes(plot, _picture_of_one(estimator, explanation, x, change, f"series {_named(values)}"))
    if plot is not None:
        log.info("the picture is in %s", plot)
    print_result(values, call.as_json, lambda: (_importance_tables if number is None else _tables_of_one)(values))
    if number is None and not call.as_json:
        log.info("%s", _footnote(values))


def _explain_as_the_paper(call: options.CallOfModel, top: int, more_models: list[Path], plot: Path | None) -> None:
    """Prints and draws the words with the largest weights; a warning says where models of other seeds have others."""
    from siggpde.cli.data import open_model
    from siggpde.plots import plot_paper_reading, require_matplotlib

    models = [call.model, *more_models]
    estimators = [open_model(replace(call, model=model)) for model in models]
    for model, estimator in zip(more_models, estimators[1:], strict=True):
        if estimator.channel_names_ != estimators[0].channel_names_:
            raise WrongCall(
                f"--another {model} is a model of other channels than {call.model}; give one of the same data"
            )
    whole = [estimator.paper_reading(sys.maxsize) for estimator in estimators]
    first, *others = [replace(reading, words=reading.words[:top]) for reading in whole]
    common = first.in_common(*others)
    ranks = [{word.name: place for place, word in enumerate(reading.words, 1)} for reading in whole]
    words = [{"name": word.name, "size": word.size, "std": word.std} for word in first.words]
    for word in words:
        word["ranks"] = [places.get(word["name"]) for places in ranks]
    values = {"models": list(map(str, models)), "all_words": first.all_words, "words": words, "in_common": common}
    if plot is not None:
        figure = require_matplotlib("figure").Figure(
            figsize=(6.4, len(models) * max(2.0, 0.32 * top + 1.2)), layout="constrained"
        )
        axes = figure.subplots(len(models), squeeze=False)[:, 0]
        for ax, model, reading in zip(axes, models, [first, *others], strict=True):
            plot_paper_reading(reading, ax, sure=common if others else None)
            ax.set_title(str(model) if others else "", fontsize="medium", loc="left")
        write_bytes(plot, _png(figure))
        log.info("the picture is in %s", plot)
    header = ["word", "|m|", "± sd", *(f"rank in {model}" for model in more_models)]
    rows = [[w["name"], f"{w['size']:.3f}", f"{w['std']:.3f}", *map(str, w["ranks"][1:])] for w in words]
    title = f"{call.model}: words by |m|, the first of {first.all_words}"
    print_result(values, call.as_json, lambda: [column_table(title, header, rows)])
    if not more_models:
        log.info(
            "one model does not tell how sure this order is: fit another with --seed and give it as --another MODEL"
        )
    elif len(common) < len(words):
        log.warning(
            "the %d models disagree: they have %d of the first %d words in common%s", len(models), len(common),
            len(words), f" ({', '.join(common)})" if common else "",
        )  # fmt: skip


def _donors(estimator: Predictor, data: SeriesData, number: int, values: dict[str, Any]) -> list[np.ndarray] | None:
    """The series of DATA that are predicted as the runner-up; None where the model has training series to take."""
    from siggpde.explain.counterfactual import kept_series

    if kept_series(estimator.committee_)[0]:
        return None
    labels = estimator.predict(data)
    donors = [x for index, x in enumerate(data.X) if index != number and labels[index] == values["runner_up"]]
    if not donors:
        raise WrongCall(
            f"--counterfactual takes new values from series predicted as {values['runner_up']}, but the model keeps no "
            "training series and DATA has none; add such series to DATA"
        )
    return donors


def _named(values: dict[str, Any]) -> str:
    """Returns the number of the series that is explained, and its id."""
    return f"{values['series']}" + (f" ({values['id']})" if "id" in values else "")


def _tables_of_one(values: dict[str, Any]) -> list[Table]:
    rows: list[tuple[str, Any]] = [("series", _named(values))]
    if values["probability"] is None:
        rows.append(("prediction", f"{values['mean']:.6g} ± {values['std']:.3g}"))
        what = "What makes up the number"
    else:
        rows.append(("prediction", f"{values['label']}, probability {values['probability']:.4f}"))
        rows.append(("runner-up", f"{values['runner_up']}, probability {values['runner_up_probability']:.4f}"))
        what = f"What speaks for {values['label']} against {values['runner_up']}"
    if values["sentence"]:
        rows.append(("raised by" if values["probability"] is None else "what speaks for it", values["sentence"]))
    rows += [
        (f"nearest training series of {neighbour['target']}", f"at distance {neighbour['distance']:.3g}")
        for neighbour in values["neighbours"]
    ]
    if "counterfactual" in values:
        rows.append(("counterfactual", values["counterfactual"]["sentence"]))
    first = [summary_table(f"{values['model']} on {values['data']}", rows)]
    if values["segments"] is not None and values["segments"]["main"]:
        stretches = [
            [*map(one.get, _WHERE), _signed(one["value"]), f"± {one['std']:.2g}", f"{one['error']:.2g}"]
            for one in values["segments"]["main"]
        ]
        header = ["channel", "what it does", "when", "contribution", "± sd", "sampling error"]
        first.append(column_table("When and where the evidence is", header, stretches, text_columns=3))
    if values["facts"]:
        first.append(column_table("Facts beside the series", ["fact", "contribution"], _terms(values["facts"])))
    rest, together = ("all others", _signed(values["rest"])), ("together", _signed(values["latent"]))
    if not values["views"]:
        terms = [*_terms(values["contributions"]), rest, ("the same for all series", _signed(values["constant"]))]
        return [*first, column_table(what, ["word", "contribution"], [*terms, together])]
    average = ("the average series", _signed(values["constant"]))
    views = [*_terms(values["views"]), average, together]
    features = [*_terms(values["contributions"]), rest, average, together]
    return [
        *first,
        column_table(f"{what}: views of the series", ["view", "contribution"], views),
        column_table("Words and kernels", ["word", "contribution"], features),
        column_table("Channels together", ["channels", "contribution"], _terms(values["interactions"])),
    ]


def _terms(contributions: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(term["name"], _signed(term["value"])) for term in contributions]


def _picture_of_one(
    estimator: Predictor, explanation: SeriesExplanation, x: np.ndarray, change: Counterfactual | None, name: str
) -> bytes:
    """Draws the series, its lines coloured by their contributions, or bars for models of spectrograms."""
    from siggpde.plots import plot_explanation, require_matplotlib

    if explanation.segments is None or estimator.preparation_.spectrogram is not None:
        return _bars_of_one(explanation, name)
    shown = min(_MOST_CHANNELS, len(x) - (estimator.preparation_.time_channel is not None))
    height = _CHANNEL * shown + (1.4 if change is None else 1.6)
    figure = require_matplotlib("figure").Figure(figsize=(6.4, height), layout="constrained")
    axes = figure.subplots(shown, sharex=True, squeeze=False)[:, 0]
    time_channel = estimator.preparation_.time_channel
    more: dict[str, Any] = {"time_channel": time_channel, "most": _MOST_CHANNELS, "name": name}
    plot_explanation(explanation, x, axes, counterfactual=change, **more)
    return _png(figure)


def _bars_of_one(explanation: SeriesExplanation, series: str) -> bytes:
    """Draws bars to both sides of zero, of views above words; a kernel, which is among both, is drawn once."""
    from siggpde.explain import Importance

    views, words = (
        [Importance(term.name, term.letters, abs(term.value), term.value) for term in contributions]
        for contributions in (explanation.views, explanation.contributions)
    )
    drawn = {bar.name for bar in views}
    words = [bar for bar in words if bar.name not in drawn]
    label = "contribution: for the prediction to the right, against it to the left"
    return _panels([(f"{series}: {name}", bars) for name, bars in (("views", views), ("words", words)) if bars], label)


def _panels(shown: list[tuple[str, list[Importance]]], contribution: str) -> bytes:
    """Draws panels of bars, without pyplot's global state; `contribution` labels bars that are not shares."""
    from siggpde.plots import plot_importance, require_matplotlib

    heights = [max(2.0, 0.32 * len(bars) + 1.2) for _, bars in shown]
    width = 6.4 if len(shown) == 1 else 8.4  # names of views are long
    figure = require_matplotlib("figure").Figure(figsize=(width, sum(heights)), layout="constrained")
    axes = figure.subplots(len(shown), squeeze=False, height_ratios=heights)[:, 0]
    for ax, (title, bars) in zip(axes, shown, strict=True):
        plot_importance(bars, ax)
        if len(shown) > 1 or contribution:
            ax.set_title(title, fontsize="medium", loc="left")
        if contribution:
            ax.xaxis.set_major_formatter(require_matplotlib("ticker").ScalarFormatter())
            ax.set_xlabel(contribution if ax is axes[-1] else "")
            ax.axvline(0, color="black", linewidth=0.8)
    return _png(figure)


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def _signed(value: float) -> str:
    return f"{value:+.4g}"


def _importance_tables(values: dict[str, Any]) -> list[Table]:
    classes = values["classes"]
    title = f"{values['model']} on {values['series']} series of {values['data']}"
    shown = classes if len(classes) <= _SIDE_BY_SIDE else []
    if len(classes) == 2:  # the first one is its mirror image, but for the sizes of the classes
        shown = classes[1:]
    tables = []
    for part, name, column in _PARTS:
        if values[part]:
            heading = f"{title}: {name.lower()}" if not tables else name
            tables.append(_table(heading, column, values[part], shown, part))
    words = f"{'Words' if tables else title + ': words'}, the first of {values['all_words']}"
    tables.append(column_table(words, ["word", "share"], [(word["name"], _percent(word)) for word in values["words"]]))
    if len(classes) > _SIDE_BY_SIDE:
        tables.append(_strongest(classes))
    else:
        for one in shown:
            heading = "The number" if one["label"] is None else f"{one['label']} against the others"
            words = [(word["name"], _effect(word)) for word in one["words"]]
            tables.append(column_table(f"{heading}: words", ["word", "effect"], words))
    if values["views"]:
        views = [(view["name"], _percent(view)) for view in values["views"][:_VIEWS]]
        more = len(values["views"]) - len(views)
        rest = f", the first {len(views)} of {len(views) + more}" if more > 0 else ""
        tables.append(column_table(f"The views of the series{rest}", ["view", "share"], views))
    return tables


def _footnote(values: dict[str, Any]) -> str:
    """Returns a line about the columns."""
    regression = not values["classes"] or values["classes"][0]["label"] is None
    effect = (
        "the mean contribution to the number in the larger half of the numbers, minus that in the smaller half"
        if regression
        else "the mean contribution to the logit of the class in its series, minus that in the other series"
    )
    return (
        f"effect ± standard deviation: {effect}; a question mark: its sign is less than 90 % sure. In a word such as "
        "x–y x moves, then y; words that move together are one"
    )


def _table(heading: str, column: str, overall: list[dict[str, Any]], classes: list[dict[str, Any]], part: str) -> Table:
    terms = [{term["name"]: term for term in values[part]} for values in classes]
    header = [column, "share", *("effect" if values["label"] is None else f"{values['label']}" for values in classes)]
    rows = [
        (term["name"], _percent(term), *(_effect(by_name.get(term["name"])) for by_name in terms)) for term in overall
    ]
    return column_table(heading, header, rows)


def _strongest(classes: list[dict[str, Any]]) -> Table:
    """Returns the strongest channel, region, scale and word of every class."""
    rows = []
    for values in classes:
        cells = [f"{values['label']}", f"{values['series']}"]
        for part in ("channels", "regions", "scales", "words"):
            best = max(values[part], key=lambda term: term["effect"], default=None)
            cells.append("" if best is None else f"{best['name']}\n{_effect(best)}")
        rows.append(cells)
    header = ["class", "series", "channel", "when", "scale", "word"]
    return column_table("The strongest evidence for each class", header, rows, text_columns=6)


def _effect(term: dict[str, Any] | None) -> str:
    if term is None:
        return ""
    doubt = "" if term["probability"] >= _SURE else " ?"
    return f"{term['effect']:+.2g} ± {term['std']:.2g}{doubt}"


def _percent(term: dict[str, Any]) -> str:
    return f"{100 * term['share']:.1f} %"
