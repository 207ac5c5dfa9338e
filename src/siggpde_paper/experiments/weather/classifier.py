"""`SigGPClassifier` as a forecaster of rain: its probabilities, their band, and the words it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from siggpde import SigGPClassifier
from siggpde.committee.view_committee import AveragedMembers, Judged, average_latents
from siggpde.explain.terms import terms_of
from siggpde_paper.experiments.results import Record
from siggpde_paper.experiments.weather.features import before_rain


def fit_classifier(
    x: np.ndarray,
    wet: np.ndarray,
    blocks: np.ndarray | None,
    names: Sequence[str],
    seed: int,
    settings: Mapping[str, Any],
) -> SigGPClassifier:
    """The estimator for windows x (n, channels, length); with `blocks` (n,) these are its groups.

    `settings` are those that are not the defaults.
    """
    classifier = SigGPClassifier(random_state=seed, channel_names=list(names), **settings)
    return classifier.fit(x, wet, groups=blocks)


def log_odds(classifier: SigGPClassifier, x: np.ndarray) -> np.ndarray:
    """log p - log (1 - p) of the probability p of rain, (n,); no warning that months of other years are unlike."""
    return _log_ratio(classifier.predict_with_newness(x)[0])


@torch.no_grad()
def log_odds_quantiles(classifier: SigGPClassifier, x: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles (n, levels) of the log-odds of rain under the posterior of the latents.

    The latents of both classes are -f and f. The probability grows with f, so that its quantiles are those of f, a
    Gaussian with the mean and variance of the committee, through the link.
    """
    batch, committee = classifier.preparation_(x), classifier.committee_
    assert isinstance(committee, AveragedMembers)
    judged = committee.judged(batch)
    mean, variance = average_latents(judged.means, judged.variances, committee.weights)
    sign = mean.new_tensor([-1.0, 1.0])
    columns = []
    for level in levels:
        shifted = mean + NormalDist().inv_cdf(level) * variance.sqrt()[:, None] * sign
        known = Judged(shifted.expand_as(judged.means), torch.zeros_like(judged.variances), judged.scores)
        columns.append(_log_ratio(committee.probabilities(batch, known).numpy()))
    return np.stack(columns, axis=1)


def word_importance(classifier: SigGPClassifier, x: np.ndarray, wet: np.ndarray, top: int) -> list[Record]:
    """The `top` words of paths by sd x weight (`SigGPClassifier.importance`) on windows x (n, channels, length).

    Kernels of all words and statistics of windows, which have no short name, are left out; `share` is the share in all
    of them. `before_rain` is computed for the first view that has the word.
    """
    terms, batch = terms_of(classifier.committee_), classifier.preparation_(x)
    vocabulary = terms.vocabulary(classifier.channel_names_)
    words = {
        name: place for place, name in enumerate(vocabulary.names[: vocabulary.words]) if vocabulary.letters[place]
    }
    ranked = [each for each in classifier.importance(x, len(vocabulary.names)) if each.name in words][:top]
    values: dict[int, np.ndarray] = {}
    wanted = {words[each.name] for each in ranked}
    for places, (_, features) in zip(vocabulary.parts, terms.parts(terms.prepare(batch)), strict=True):
        for column, place in enumerate([] if places is None else places.tolist()):
            if place in wanted:
                values.setdefault(place, features[:, column].numpy())
    return [
        {
            "name": each.name,
            "letters": list(each.letters),
            "importance": each.importance,
            "share": each.share,
            "before_rain": before_rain(values[words[each.name]], wet),
        }
        for each in ranked
    ]


def channel_shares(classifier: SigGPClassifier, x: np.ndarray) -> dict[str, float]:
    """The share of every channel in the effects of cutting channels out, largest first."""
    return {each.name: each.share for each in classifier.importance(x).channels}


def _log_ratio(probabilities: np.ndarray) -> np.ndarray:
    return np.log(probabilities[:, 1]) - np.log(probabilities[:, 0])
