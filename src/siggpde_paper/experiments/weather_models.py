"""Windows of weather, and forecasters of rain: climatology, logistic regression, the estimator, the paper's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from time import process_time
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupShuffleSplit, LeaveOneGroupOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from siggpde import SigGPClassifier
from siggpde.committee.committee import ViewPrediction
from siggpde.datasets import find_dataset
from siggpde.explain.terms import terms_of, word_features
from siggpde.explain.text import WHOLE
from siggpde.gp.likelihoods import Bernoulli
from siggpde.gp.model import SignatureGP
from siggpde.gp.trainer import History
from siggpde.series import SeriesBatch
from siggpde_paper.experiments.methods import (
    paper_model,
    standardised,
    standardised_by_series,
    train_model,
    training_facts,
    with_time,
)
from siggpde_paper.experiments.results import Record

_NO_READING = -999.0  # readings below it are missing: they are written as -9999
_KEYS = ("data", "columns", "time_minutes")
DAY = 24 * 60
_STEPS = 2000
_BAND = (0.05, 0.95)


@dataclass(frozen=True)
class Station:
    """Readings (rows, columns), NaN where missing; names of the columns; minutes and segment of every row (rows,)."""

    readings: np.ndarray
    columns: tuple[str, ...]
    minutes: np.ndarray
    segment: np.ndarray

    def columns_of(self, names: Sequence[str]) -> np.ndarray:
        """The readings of the columns with these names, units left out: "p" for "p (mbar)"."""
        short = [column.split(" (")[0] for column in self.columns]
        unknown = [name for name in names if name not in short]
        if unknown:
            raise ValueError(f"the station has no column {unknown[0]!r}; its columns are {', '.join(short)}")
        return self.readings[:, [short.index(name) for name in names]]


@dataclass(frozen=True)
class Windows:
    """Windows of a station's `readings` (rows, channels): where they `start` and end, the rain after them, and how many
    were dropped; channels at `cumulated` are sums within the window."""

    readings: np.ndarray
    start: np.ndarray
    minutes: np.ndarray
    rain: np.ndarray
    wet: np.ndarray
    length: int
    crossing: int = 0
    missing: int = 0
    cumulated: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.start)

    @property
    def day(self) -> np.ndarray:
        """The day of the forecast, a number, (n,)."""
        return self.minutes // DAY

    @property
    def x(self) -> np.ndarray:
        """The series, (n, channels, length)."""
        rows = self.start[:, None] + np.arange(self.length)
        series = np.ascontiguousarray(self.readings[rows].swapaxes(1, 2))
        series[:, list(self.cumulated)] = series[:, list(self.cumulated)].cumsum(axis=2)
        return series

    def take(self, rows: np.ndarray) -> Windows:
        columns = {name: getattr(self, name)[rows] for name in ("start", "minutes", "rain", "wet")}
        return replace(self, **columns)

    def every(self, minutes: int) -> Windows:
        """The windows whose forecast is made when the clock shows a multiple of `minutes`."""
        return self.take(self.minutes % minutes == 0)


def load_station(name: str) -> Station:
    """A station's file, ``<name>.npz`` in the folders of `siggpde.datasets`, with readings below -999 as NaN."""
    try:
        path = find_dataset(name)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}\nThe weather experiment needs the file: put it there, or set SIGGPDE_DATA"
        ) from error
    with np.load(path, allow_pickle=False) as file:
        absent = [key for key in _KEYS if key not in file.files]
        if absent:
            raise ValueError(f"{path} has no array {absent[0]!r}; a station's file has {', '.join(_KEYS)}")
        data, columns, minutes = (file[key] for key in _KEYS)
        segment = file["segment"] if "segment" in file.files else np.zeros(len(minutes), dtype=np.int64)
    if data.ndim != 2 or data.shape != (len(minutes), len(columns)) or segment.shape != minutes.shape:
        raise ValueError(f"{path}: data {data.shape}, {len(columns)} columns and {len(minutes)} stamps do not fit")
    readings = data.astype(np.float64)
    readings[readings < _NO_READING] = np.nan
    return Station(readings, tuple(map(str, columns)), minutes.astype(np.int64), segment)


def cut_windows(
    station: Station,
    channels: Sequence[str],
    rain: str,
    *,
    length: int = 36,
    ahead: int = 6,
    more_than: float = 1.0,
    step: int = 10,
    cumulated: Sequence[str] = (),
) -> Windows:
    """All windows of `length` readings, `step` minutes apart, wet if over `more_than` mm of rain follow in `ahead`."""
    if length < 1 or ahead < 1:
        raise ValueError(f"length and ahead must be at least 1, got {length} and {ahead}")
    readings, drops = station.columns_of(channels), station.columns_of([rain])[:, 0]
    whole = length + ahead
    start = np.arange(max(0, len(readings) - whole + 1))
    broken = np.logical_or(np.diff(station.minutes) != step, np.diff(station.segment) != 0)
    crosses = _any_within(broken, start, whole - 1)
    dry_unknown = np.isnan(drops)
    missing = _any_within(np.isnan(readings).any(axis=1), start, length)
    missing |= _any_within(dry_unknown, start + length, ahead)
    fallen = np.concatenate([[0.0], np.where(dry_unknown, 0.0, drops).cumsum()])
    amount = (fallen[start + whole] - fallen[start + length]).round(3)
    kept = ~crosses & ~missing
    start, amount = start[kept], amount[kept]
    dropped = int(crosses.sum()), int((missing & ~crosses).sum())
    minutes, places = station.minutes[start + length - 1], tuple(list(channels).index(name) for name in cumulated)
    return Windows(readings, start, minutes, amount, amount > more_than, length, *dropped, places)


def channel_names(config: dict[str, Any]) -> list[str]:
    """The names of the channels of a series, as explanations have them."""
    data = config["data"]
    return [f"cumulated {name}" if name in data.get("cumulated", ()) else name for name in data["channels"]]


def thin(wet: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Sorted indices of all wet windows and of `ratio` times as many dry ones, drawn without replacement."""
    rainy, dry = np.flatnonzero(wet), np.flatnonzero(~wet)
    wanted = round(ratio * len(rainy))
    if len(rainy) == 0 or not 0 < wanted <= len(dry):
        raise ValueError(
            f"{len(rainy)} wet windows want {wanted} dry ones at the ratio {ratio}, and there are {len(dry)}; "
            "give a longer record or a smaller ratio"
        )
    kept = np.random.default_rng(seed).choice(dry, wanted, replace=False)
    return np.sort(np.concatenate([rainy, kept]))


def to_natural(log_odds: np.ndarray, kept: float) -> np.ndarray:
    """Log-odds at the natural rate, from those of a sample that kept the share `kept` of the dry windows."""
    if not 0 < kept <= 1:
        raise ValueError(f"the share of dry windows that were kept must be above 0 and at most 1, got {kept}")
    return log_odds + np.log(kept)


def _any_within(flags: Any, start: np.ndarray, count: int) -> np.ndarray:
    """Whether any of flags[start : start + count] is set, for every start."""
    total = np.concatenate([[0], flags.cumsum()])
    return total[start + count] > total[start]


def before_rain(values: np.ndarray, wet: np.ndarray) -> float | None:
    """Mean of the values (n,) of wet windows minus that of dry ones, in standard deviations; None for a constant."""
    spread = float(values.std())
    if spread <= 1e-9 * float(np.abs(values).max()):  # constant but for rounding
        return None
    return float(values[wet].mean() - values[~wet].mean()) / spread


def classifier_log_odds(classifier: SigGPClassifier, x: np.ndarray) -> np.ndarray:
    """log p - log (1 - p) of the probability p of rain, (n,); no warning that months of other years are unlike."""
    return _log_ratio(classifier.predict_with_novelty(x)[0])


@torch.no_grad()
def log_odds_quantiles(classifier: SigGPClassifier, x: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles (n, levels) of the log-odds of rain: those of the Gaussian latent f, through the increasing link."""
    batch, committee = classifier.preparation_(x), classifier.committee_
    prediction = committee.predict(batch)
    assert isinstance(prediction, ViewPrediction)
    mean, variance = prediction.latents()
    deviation = variance.sqrt()[:, None] * mean.new_tensor([-1.0, 1.0])
    certain = replace(prediction, variances=torch.zeros_like(prediction.variances))
    columns = []
    for level in levels:
        means = (mean + NormalDist().inv_cdf(level) * deviation).expand_as(prediction.means)
        columns.append(_log_ratio(replace(certain, means=means).probabilities().numpy()))
    return np.stack(columns, axis=1)


def word_importance(classifier: SigGPClassifier, x: np.ndarray, wet: np.ndarray, top: int) -> list[Record]:
    """The `top` words of paths by sd x weight on windows x, with their `share`; `before_rain` is of the first view."""
    terms, batch = terms_of(classifier.committee_), classifier.preparation_(x)
    vocabulary = terms.vocabulary(classifier.channel_names_)
    paths = [part for part, scale in zip(vocabulary.parts, vocabulary.scales, strict=True) if scale == WHOLE]
    places = {place for part in paths if part is not None for place in part.tolist() if vocabulary.letters[place]}
    words = {vocabulary.names[place]: place for place in places}
    ranked = [word for word in classifier.importance(x, len(vocabulary.names)) if word.name in words][:top]
    values: dict[int, np.ndarray] = {}
    wanted = {words[word.name] for word in ranked}
    for places, part in zip(vocabulary.parts, terms.parts(terms.prepare(batch)), strict=True):
        for column, place in enumerate([] if places is None else places.tolist()):
            if place in wanted:
                values.setdefault(place, part.values[:, column].numpy())
    return [
        {
            "name": word.name,
            "letters": list(word.letters),
            "importance": word.importance,
            "share": word.share,
            "before_rain": before_rain(values[words[word.name]], wet),
        }
        for word in ranked
    ]


def _log_ratio(probabilities: np.ndarray) -> np.ndarray:
    return np.log(probabilities[:, 1]) - np.log(probabilities[:, 0])


def as_paths(x: np.ndarray, train: np.ndarray, by_series: bool, time: bool = True) -> Tensor:
    """Windows x as standardised paths (n, length, 1 + channels), over all windows, or with `by_series` in each."""
    paths, others = (torch.from_numpy(np.ascontiguousarray(z.swapaxes(1, 2))) for z in (x, train))
    if time:
        paths, others = with_time(paths), with_time(others)
    return standardised_by_series(paths) if by_series else standardised(others, paths)[1]


@dataclass(frozen=True)
class PaperModel:
    """The trained model, how it makes paths of windows, and what happened in training."""

    model: SignatureGP
    paths: Callable[[np.ndarray], Tensor]
    history: History

    @torch.no_grad()
    def latent(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation of f, two (n,)."""
        mean, variance = self.model.predict_f(self.paths(x))
        return mean[:, 0].numpy(), variance[:, 0].sqrt().numpy()

    @torch.no_grad()
    def log_odds(self, x: np.ndarray) -> np.ndarray:
        """log p - log (1 - p) of rain, (n,), with p = Phi(mean / sqrt(1 + variance))."""
        latent, likelihood = self.model.predict_f(self.paths(x)), self.model.likelihood
        wet, dry = (likelihood.log_predictive(*latent, torch.full((len(x),), label)) for label in (1, 0))
        return (wet - dry).numpy()

    def facts(self) -> Record:
        """Iterations, CPU seconds of one, the validation NLPP that was kept, and the scales of the kernel."""
        scores = [record.nlpp for record in self.history.of("hyperparameters") if record.nlpp is not None]
        return training_facts(self.model, self.history) | {"validation_nlpp": min(scores, default=None)}

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all iterations, those before an interruption too."""
        return sum(self.history.step_seconds.values())

    def features(self, x: np.ndarray, wet: np.ndarray, names: Sequence[str], top: int) -> dict[str, list[Record]]:
        """The `top` words "by_size" |m|, as the paper has it, and "by_spread" sd x |m|, with their shares."""
        words = self.model.features.words
        letters = [*names] if self.model.features.channels == len(names) else ["time", *names]
        terms = word_features(self.model, SeriesBatch(self.paths(x))).detach().numpy()
        mean = self.model.variational.mean.detach().double().numpy()[0]
        is_word = np.array([len(word) > 0 for word in words])

        def ranked(measure: np.ndarray) -> list[Record]:
            order = np.argsort(-measure, kind="stable")[:top]
            return [
                {
                    "name": "–".join(letters[letter] for letter in words[place]),
                    "letters": [letters[letter] for letter in words[place]],
                    "importance": float(measure[place]),
                    "share": float(measure[place] / measure.sum()),
                    "mean": float(mean[place]),
                    "before_rain": before_rain(terms[:, place], wet),
                }
                for place in order.tolist()
            ]

        size = np.abs(mean) * is_word
        return {"by_size": ranked(size), "by_spread": ranked(size * terms.std(axis=0))}


def fit_paper_model(
    x: np.ndarray,
    wet: np.ndarray,
    blocks: np.ndarray,
    settings: Mapping[str, Any],
    *,
    by_series: bool,
    seed: int,
    time: bool = True,
    checkpoint: Path | None = None,
) -> PaperModel:
    """Trains with windows x and outcomes `wet` (n,); `blocks` (n,) are left out for validation as wholes."""
    paths_of = partial(as_paths, train=x, by_series=by_series, time=time)
    paths = paths_of(x)
    model = paper_model(paths, Bernoulli(), settings["inducing"], {"order": "lexicographic"}, seed)
    settings = {**settings, "validation": split_blocks(blocks, settings["validation"], seed)}
    history = train_model(settings, model, paths, torch.from_numpy(wet.astype(np.int64)), seed, checkpoint)
    return PaperModel(model, paths_of, history)


def split_blocks(blocks: np.ndarray, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Rows for training and for validation, the latter those of a `share` of the blocks, drawn at random."""
    if len(np.unique(blocks)) < 2:
        raise ValueError("validation by blocks needs two or more of them; give more weeks, or shorter blocks")
    splitter = GroupShuffleSplit(n_splits=1, test_size=share, random_state=seed)
    train, valid = next(splitter.split(blocks, groups=blocks))
    return train.tolist(), valid.tolist()


@dataclass
class Forecaster:
    """Log-odds of windows, the facts that were chosen, what is to be drawn of windows in a row, and the cost."""

    log_odds: Callable[[np.ndarray], np.ndarray]
    facts: dict[str, Any]
    describe: Callable[[Windows], Record] | None = None
    cpu_seconds: float = 0.0


def fit_forecaster(
    config: dict[str, Any], method: str, train: Windows, seed: int, checkpoint: Path | None = None
) -> Forecaster:
    """The forecaster of `config["methods"][method]`, trained."""
    options, blocks = config["methods"][method], train.day // config["data"]["block_days"]
    kinds: dict[str, Callable[[], Forecaster]] = {
        "climatology": lambda: climatology(train.wet),
        "logistic": lambda: logistic(train.x, train.wet, blocks, config["logistic"]["strengths"]),
        "classifier": lambda: signature_classifier(config, options, train, blocks, seed),
        "paper": lambda: by_the_paper(config, options, train, blocks, seed, checkpoint),
    }
    if options["kind"] not in kinds:
        raise ValueError(f"the kind of {method!r} is {options['kind']!r}, which is none of {', '.join(kinds)}")
    started = process_time()
    forecaster = kinds[options["kind"]]()
    if forecaster.cpu_seconds == 0:
        forecaster.cpu_seconds = process_time() - started
    return forecaster


def climatology(wet: np.ndarray) -> Forecaster:
    """The share of rain in training, for every window."""
    rainy = int(wet.sum())
    if not 0 < rainy < len(wet):
        raise ValueError(f"{rainy} of {len(wet)} training windows are wet; a forecaster needs both kinds")
    value = float(np.log(rainy / (len(wet) - rainy)))
    return Forecaster(lambda x: np.full(len(x), value), {"share": rainy / len(wet)})


def logistic(x: np.ndarray, wet: np.ndarray, blocks: np.ndarray, strengths: Sequence[float]) -> Forecaster:
    """Logistic regression on the standardised readings of the whole window; C is the best of the `strengths`."""
    flat = x.reshape(len(x), -1)
    left_out = {"groups": blocks, "cv": LeaveOneGroupOut(), "method": "predict_proba"}
    models, losses = {}, {}
    for strength in strengths:
        models[strength] = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=_STEPS))
        probabilities = np.asarray(cross_val_predict(models[strength], flat, wet, **left_out))
        losses[strength] = float(log_loss(wet, probabilities[:, 1]))
    best = min(losses, key=losses.__getitem__)
    model = models[best].fit(flat, wet)
    chosen = {"C": best, "left_out_nlpp": losses[best]}
    return Forecaster(lambda new: model.decision_function(new.reshape(len(new), -1)), chosen)


def signature_classifier(
    config: dict[str, Any], options: dict[str, Any], train: Windows, blocks: np.ndarray, seed: int
) -> Forecaster:
    """`SigGPClassifier`; with options["groups"] blocks are its groups, and it tells latents, a band and words."""
    names, grouped, top = channel_names(config), options.get("groups", False), config["figure"]["features"]
    x, settings = train.x, options.get("settings", {})
    model = SigGPClassifier(random_state=seed, channel_names=list(names), **settings)
    model.fit(x, train.wet, groups=blocks if grouped else None)
    chosen = {} if model.n_groups_ is None else {"groups": model.n_groups_}

    def describe(shown: Windows) -> Record:
        mean, spread = model.latent(shown.x)
        low, high = log_odds_quantiles(model, shown.x, _BAND).T
        return {
            "latent": {"mean": rounded(mean[:, 1]), "sd": rounded(spread[:, 1])},
            "band": {"low": rounded(low), "high": rounded(high)},
            "features": {"by_spread": word_importance(model, x, train.wet, top)},
            "channels": {channel.name: channel.share for channel in model.importance(x).channels},
        }

    return Forecaster(lambda new: classifier_log_odds(model, new), chosen, describe=describe if grouped else None)


def by_the_paper(
    config: dict[str, Any], options: dict[str, Any], train: Windows, blocks: np.ndarray, seed: int, path: Path | None
) -> Forecaster:
    """The paper's model; options are `each` and `time` of `as_paths`, and changes of the `schedule`."""
    x, names, top = train.x, channel_names(config), config["figure"]["features"]
    settings = config["paper"] | {"schedule": config["paper"]["schedule"] | options.get("schedule", {})}
    how = {"by_series": options["each"], "time": options.get("time", True), "seed": seed, "checkpoint": path}
    model = fit_paper_model(x, train.wet, blocks, settings, **how)

    def describe(shown: Windows) -> Record:
        mean, spread = model.latent(shown.x)
        wettest = int(shown.rain.argmax())
        series = model.paths(shown.x[wettest : wettest + 1])[0]
        return {
            "latent": {"mean": rounded(mean), "sd": rounded(spread)},
            "series": {"minutes": int(shown.minutes[wettest]), "values": [rounded(row) for row in series.numpy().T]},
            "features": model.features(x, train.wet, names, top),
        }

    return Forecaster(model.log_odds, model.facts(), describe, model.cpu_seconds)


def rounded(values: np.ndarray) -> list[float]:
    """Five decimals, as records have them."""
    return values.round(5).tolist()
