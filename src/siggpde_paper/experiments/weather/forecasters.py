"""The forecasters of the weather experiment: climatology, logistic regression, our classifier and the paper's model.

Each is trained with windows and predicts log-odds of rain at the rate of rain of its training windows. `blocks` (n,)
are numbers of blocks of time, such as weeks: settings are chosen by predictions for blocks that were left out, but for
those of the classifier without groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from siggpde_paper.experiments.results import Record
from siggpde_paper.experiments.weather import classifier as ours
from siggpde_paper.experiments.weather.paper_model import fit_paper_model
from siggpde_paper.experiments.weather.windows import Windows

_STEPS = 2000
_BAND = (0.05, 0.95)
_KINDS = "climatology, logistic, classifier, paper"


@dataclass(frozen=True)
class Forecaster:
    """`log_odds` maps windows x (n, channels, length) to log-odds (n,); `settings` are those that were chosen, in plain
    values; `cpu_seconds` of training, where it may have been interrupted.

    `describe`, where there is something to draw, maps windows in a row to what is known of them.
    """

    log_odds: Callable[[np.ndarray], np.ndarray]
    settings: dict[str, Any] = field(default_factory=dict)
    cpu_seconds: float | None = None
    describe: Callable[[Windows], Record] | None = None


def fit_forecaster(
    config: dict[str, Any], method: str, train: Windows, seed: int, checkpoint: Path | None = None
) -> Forecaster:
    """The forecaster of `config["methods"][method]`, trained."""
    options = config["methods"][method]
    blocks = train.day // config["data"]["block_days"]
    if options["kind"] == "climatology":
        return climatology(train.wet)
    if options["kind"] == "logistic":
        return logistic(train.x, train.wet, blocks, config["logistic"]["strengths"])
    if options["kind"] == "classifier":
        return signature_classifier(config, options, train, blocks, seed)
    if options["kind"] == "paper":
        return by_the_paper(config, options, train, blocks, seed, checkpoint)
    raise ValueError(f"the kind of the method {method!r} is {options['kind']!r}, which is none of {_KINDS}")


def climatology(wet: np.ndarray) -> Forecaster:
    """The share of rain in training, for every window.

    Examples:
        >>> climatology(np.array([True, False, False, False])).log_odds(np.zeros((2, 7, 36))).round(3)
        array([-1.099, -1.099])
    """
    rainy = int(wet.sum())
    if not 0 < rainy < len(wet):
        raise ValueError(f"{rainy} of {len(wet)} training windows are wet; a forecaster needs both kinds")
    value = float(np.log(rainy / (len(wet) - rainy)))
    return Forecaster(lambda x: np.full(len(x), value), {"share": rainy / len(wet)})


def logistic(x: np.ndarray, wet: np.ndarray, blocks: np.ndarray, strengths: Sequence[float]) -> Forecaster:
    """Logistic regression on the standardised readings of the whole window; C is the best of the `strengths`."""
    flat = x.reshape(len(x), -1)
    scores = {}
    for strength in strengths:
        probabilities = np.empty(len(x))
        for train, left in LeaveOneGroupOut().split(flat, wet, blocks):
            probabilities[left] = _pipeline(strength).fit(flat[train], wet[train]).predict_proba(flat[left])[:, 1]
        scores[strength] = float(log_loss(wet, probabilities))
    best = min(scores, key=scores.__getitem__)
    model = _pipeline(best).fit(flat, wet)
    chosen = {"C": best, "left_out_nlpp": scores[best]}
    return Forecaster(lambda new: model.decision_function(new.reshape(len(new), -1)), chosen)


def signature_classifier(
    config: dict[str, Any], options: dict[str, Any], train: Windows, blocks: np.ndarray, seed: int
) -> Forecaster:
    """`SigGPClassifier`; with options["groups"] blocks are its groups, and it tells latents, a band and words."""
    names, grouped, top = config["data"]["channels"], options.get("groups", False), config["figure"]["features"]
    x, settings = train.x, options.get("settings", {})
    model = ours.fit_classifier(x, train.wet, blocks if grouped else None, names, seed, settings)
    chosen = {} if model.n_groups_ is None else {"groups": model.n_groups_}

    def describe(shown: Windows) -> Record:
        mean, spread = model.latent(shown.x)
        low, high = ours.log_odds_quantiles(model, shown.x, _BAND).T
        return {
            "latent": {"mean": rounded(mean[:, 1]), "sd": rounded(spread[:, 1])},
            "band": {"low": rounded(low), "high": rounded(high)},
            "features": {"by_spread": ours.word_importance(model, x, train.wet, top)},
            "channels": ours.channel_shares(model, x),
        }

    return Forecaster(lambda new: ours.log_odds(model, new), chosen, describe=describe if grouped else None)


def by_the_paper(
    config: dict[str, Any],
    options: dict[str, Any],
    train: Windows,
    blocks: np.ndarray,
    seed: int,
    checkpoint: Path | None,
) -> Forecaster:
    """The paper's model; options["each"] says how windows are scaled (see `paper_model`)."""
    x, names, top = train.x, config["data"]["channels"], config["figure"]["features"]
    model = fit_paper_model(
        x, train.wet, blocks, config["paper"], each=options["each"], seed=seed, checkpoint=checkpoint
    )

    def describe(shown: Windows) -> Record:
        mean, spread = model.latent(shown.x)
        wettest = int(shown.rain.argmax())
        series = model.scaling(shown.x[wettest : wettest + 1])[0]
        return {
            "latent": {"mean": rounded(mean), "sd": rounded(spread)},
            "series": {"minutes": int(shown.minutes[wettest]), "values": [rounded(row) for row in series.numpy().T]},
            "features": model.features(x, train.wet, names, top),
        }

    return Forecaster(model.log_odds, model.settings(), model.cpu_seconds, describe)


def rounded(values: np.ndarray) -> list[float]:
    """Five decimals, as records have them."""
    return values.round(5).tolist()


def _pipeline(strength: float) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=_STEPS))
