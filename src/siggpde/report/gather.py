"""Gathers what a report shows of a fitted estimator and some series, and writes the page."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.committee import LeftOutRecord
from siggpde.committee.conformal import left_out_mixture, left_out_probabilities
from siggpde.committee.novelty import Scores
from siggpde.explain import Importances, global_importance
from siggpde.numerics.backend import environment
from siggpde.plots import kernel_directions
from siggpde.plots.style import CLASSES, MARKERS
from siggpde.report.card import model_facts
from siggpde.report.content import Case, Content, Data, NoveltyScores, Series
from siggpde.report.judgement import ClassJudgement, Judgement, NumberJudgement, entropy
from siggpde.report.page import GENERATOR, page
from siggpde.series import SeriesBatch
from siggpde.series.statistics import OF_CHANNELS, OF_SERIES
from siggpde.utils.files import digest, write_bytes
from siggpde.utils.progress import Progress
from siggpde.utils.times import TimeAs, TimeFormat

LEVELS = (0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.975)
"""Quantiles of numbers: tenths, and the ends of intervals of 50, 80, 90 and 95 %."""
NOT_OF_THE_MODEL = ("channel_names", "random_state", "n_jobs", "verbose", "checkpoint", "resume", "cache_dir")
"""Settings of an estimator that do not decide about the model."""
_MAPPED = 1000  # series of a map
_SEGMENTS, _PERMUTATIONS, _PREDICTIONS = 10, 16, 500  # sampling errors are then a tenth of the uncertainty
_FRAMES, _LINES = 8, 4  # frames of examples, and series of one class in a frame


def write_report(
    estimator: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    facts: Any = None,
    groups: Any = None,
    ids: Sequence[Any] | None = None,
    title: str | None = None,
    target: str | None = None,
    explained: int = 2,
    seed: int = 0,
    force: bool = False,
    source: Sequence[tuple[str, str]] = (),
    commands: Sequence[tuple[str, str]] | None = None,
    time_as: TimeAs = "auto",
) -> str:
    """Writes the page of an estimator, with arguments as its `report`, and rows on the `source` and `commands`."""
    check_path(path, force)
    if isinstance(explained, bool) or not isinstance(explained, int) or explained < 0:
        raise ValueError(
            f"explained must be a whole number from 0, the series of each kind to explain; got {explained!r}"
        )
    with Progress(None if getattr(estimator, "verbose", 0) else False) as bar:
        bar.start("report", 5)
        codes = None if y is None else estimator._known_targets(y)
        batch = estimator._batch(X, None if codes is None else len(codes), facts)
        group_names = _one_a_series("groups", groups, len(batch))
        names = _one_a_series("ids", ids, len(batch)) or [str(row) for row in range(len(batch))]
        subject = Subject(estimator, getattr(X, "X", X), batch, codes, names, seed)
        clock = estimator._time_format(batch, time_as)
        bar.step("series read")
        with estimator._threads(batch):
            predicted = predict(subject)
            training = codes is not None and estimator.is_fitted_to(batch, y)
            judgement = judge(subject, predicted, None if group_names is None else np.array(group_names), training)
        bar.step("predicted")
        with estimator._threads(batch):
            importances = _importances(subject, predicted, clock)
        bar.step("importances found")
        cases = cases_of(subject, predicted, judgement, training, explained, time_as)
        bar.step("predictions explained")
        model = model_facts(estimator)
        remembered = (getattr(estimator, "reading_", None) or {}).get("target")
        named = str(target or remembered or ("number" if model.labels is None else "class"))
        settings = {"title": title, "target": target, "explained": explained, "random_state": seed}
        rows, points = _map(subject, predicted, judgement)
        content = Content(
            title=title or f"{model.estimator} on {len(names):,} series",
            data=_data(subject, group_names, named, clock),
            model=model,
            judgement=judgement,
            training=training,
            importances=importances,
            map_rows=rows,
            map_points=points,
            novelty=None if training else _novelty(subject, predicted.scores),
            cases=cases,
            names=names if training else None,
            origin=_origin(subject, source),
            commands=[*(commands or _commands(path, subject, settings, groups is not None))],
            seed=seed,
        )
        html = page(content)
        bar.step("figures drawn")
    write_bytes(Path(path), html.encode())
    return os.fspath(path)


def check_path(path: str | os.PathLike[str], force: bool) -> None:
    """Refuses to overwrite what is no report, and folders that are not there."""
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"{place} is a folder; name a file for the report, such as {place / 'report.html'}")
    if not place.parent.is_dir():
        raise ValueError(f"the folder {place.parent} of {place.name} does not exist; make it first")
    if place.exists() and not force:
        with place.open("rb") as file:
            if GENERATOR.encode() not in file.read(1000):
                raise FileExistsError(f"{place} exists and is no report of siggpde; force=True overwrites it")


class Subject(NamedTuple):
    """A fitted estimator, the series X as arrays and as a batch, their targets `codes` (n,) or None, and names."""

    estimator: Any
    X: Any
    batch: SeriesBatch
    codes: Tensor | None
    names: Sequence[str]
    seed: int

    @property
    def committee(self) -> Any:
        return self.estimator.committee_

    @property
    def classes(self) -> np.ndarray | None:
        """The labels of a classifier."""
        return getattr(self.estimator, "classes_", None)

    @property
    def numbers(self) -> np.ndarray | None:
        """The true numbers (n,) of a regressor."""
        return None if self.codes is None or self.classes is not None else self.in_units(self.codes)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels that hold values."""
        return self.estimator._value_names()

    def in_units(self, values: Tensor) -> np.ndarray:
        """Returns numbers in the units of the target."""
        return (self.estimator.target_shift_ + self.estimator.target_scale_ * values).cpu().numpy()

    def target(self, row: int) -> Any:
        """The true answer of a series: a label as text, a number, or None."""
        if self.codes is None:
            return None
        code = self.codes[row]
        return float(self.in_units(code)) if self.classes is None else str(self.classes[int(code)])

    def rows(self, rows: Sequence[int]) -> Any:
        """Returns some of the series, in the layout of X."""
        if isinstance(self.X, Tensor):
            return self.X[torch.as_tensor(list(rows))]
        return self.X[np.asarray(rows, dtype=int)] if isinstance(self.X, np.ndarray) else [self.X[row] for row in rows]


class Predicted(NamedTuple):
    """Predictions: `p` (n, C) of classes, or `mean`, `std` (n,) and `quantiles` (n, L) of numbers; latents, novelty."""

    p: np.ndarray | None
    mean: np.ndarray | None
    std: np.ndarray | None
    quantiles: np.ndarray | None
    latents: Tensor
    scores: Scores | None

    @property
    def doubt(self) -> np.ndarray:
        """How unsure every prediction is (n,): the entropy of classes, the standard deviation of numbers."""
        if self.p is not None:
            return entropy(self.p)
        assert self.std is not None
        return self.std


def predict(subject: Subject) -> Predicted:
    """Returns everything that a report shows of predictions, of one look at the series."""
    prediction = subject.committee.predict(subject.batch)
    known = prediction.latents().mean, prediction.scores
    if subject.classes is not None:
        return Predicted(prediction.probabilities().cpu().numpy(), None, None, None, *known)
    moments, quantiles = prediction.mean_and_variance(), prediction.quantiles(list(LEVELS))
    return Predicted(None, *_moments(subject, *moments), subject.in_units(quantiles), *known)


def _importances(subject: Subject, predicted: Predicted, clock: TimeFormat | None) -> Importances | None:
    """Returns the importances over the series, whose predictions are known; None for a single series."""
    if len(subject.batch) < 2:
        return None
    answers = torch.as_tensor(predicted.mean if predicted.p is None else predicted.p.argmax(1))
    more: dict[str, Any] = {"classes": subject.classes, "targets": answers, "max_series": 200, "time_format": clock}
    return global_importance(subject.committee, subject.batch, subject.estimator._names(), **more)


@torch.no_grad()
def judge(subject: Subject, predicted: Predicted, groups: np.ndarray | None, training: bool) -> Judgement | None:
    """The judgement of new series or, if `training`, of these as the others predict them; None if not known."""
    committee, record, y = subject.committee, subject.committee.left_out, subject.codes
    if y is None or (training and record is None):
        return None
    rows: np.ndarray | None = np.arange(len(y))
    if training:
        rows, y = _rows_of_record(committee, record, subject.batch, y), record.y
        if rows is None:
            groups = None if record.groups is None else record.groups.cpu().numpy().astype(str)
        elif groups is not None:
            groups = groups[rows]
    if subject.classes is not None:
        p, truth = predicted.p, y.cpu().numpy().astype(int)
        if training:  # by links that were fitted to other series
            p = left_out_probabilities(committee, record).cpu().numpy()
        assert p is not None
        with np.errstate(divide="ignore"):
            loss = -np.log(p[np.arange(len(p)), truth]) + 0.0
        if not (training or np.isfinite(loss).all()):  # the logarithm of a probability that underflows is finite
            loss = -committee.log_predictive(subject.batch, y).cpu().numpy()
        return ClassJudgement(subject.classes.tolist(), truth, p, loss, rows, training, groups)
    if training:
        mixture = left_out_mixture(committee, record)
        moments, quantiles = _moments(subject, *mixture.mean_and_variance()), mixture.quantiles(list(LEVELS))
        log_density, quantiles = mixture.log_density(record.y), subject.in_units(quantiles)
    else:
        assert predicted.mean is not None and predicted.std is not None and predicted.quantiles is not None
        moments, quantiles = (predicted.mean, predicted.std), predicted.quantiles
        log_density = committee.log_predictive(subject.batch, y)
    loss = -(log_density.cpu().numpy() - np.log(subject.estimator.target_scale_))
    numbers = subject.in_units(y.double() if training else y)
    return NumberJudgement(numbers, *moments, loss, np.array(LEVELS), quantiles, rows, training, groups)


def _moments(subject: Subject, mean: Tensor, variance: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the standard deviation (n,) in the units of the target."""
    return subject.in_units(mean), (subject.estimator.target_scale_ * variance.sqrt()).cpu().numpy()


def _rows_of_record(committee: Any, record: LeftOutRecord, batch: SeriesBatch, y: Tensor) -> np.ndarray | None:
    """The numbers (n,) in the batch of the series of the record; None where the model does not keep them all."""
    if committee.landmarks is None or not record.exact or len(record.y) != len(batch):
        return None
    places: dict[bytes, list[int]] = {}
    for index, values in enumerate(committee.standard(batch).values.cpu().numpy()):
        places.setdefault(values.tobytes(), []).append(index)
    matches = []
    for values in committee.landmarks.values.cpu().numpy():
        same = places.get(values.tobytes())
        if not same:
            return None
        matches.append(same.pop(0))
    rows = np.array(matches)
    return rows if torch.equal(y[rows].to(record.y.dtype), record.y.cpu()) else None


def cases_of(
    subject: Subject, predicted: Predicted, judgement: Judgement | None, training: bool, explained: int, time_as: TimeAs
) -> list[Case]:
    """Returns `explained` series of every kind, the most uncertain, surprising and novel, with their explanations."""
    reasons = _reasons(predicted, judgement, training, min(explained, len(subject.names)))
    if not reasons:
        return []
    rows = list(reasons)
    batch = subject.batch[torch.tensor(rows)]
    permutations = max(4, min(_PERMUTATIONS, _PREDICTIONS // (_SEGMENTS * batch.channels)))
    more: dict[str, Any] = {"segments": _SEGMENTS, "permutations": permutations, "random_state": subject.seed}
    if subject.classes is not None and subject.codes is not None:
        more["y"] = subject.classes[subject.codes[torch.tensor(rows)].numpy().astype(int)]
    explanations = subject.estimator.explain(batch, top=5, time_as=time_as, **more)
    losses = {}
    if judgement is not None and judgement.rows is not None:
        losses = dict(zip(judgement.rows.tolist(), judgement.loss.tolist(), strict=True))
    p_values = unusual = [None] * len(rows)
    if predicted.scores is not None:
        scores = Scores(*(part[rows] for part in predicted.scores))
        p_values = subject.committee.novelty.p_values(scores.score).tolist()
        unusual = scores.reasons(*subject.estimator._described())
    series = _as_given(subject, rows)
    if subject.estimator.preparation_.spectrogram is None:
        explanations = [why.of_readings(one.values, one.times) for why, one in zip(explanations, series, strict=True)]
    seen = [_as_seen(subject, batch, place, given) for place, given in enumerate(series)]
    columns: Any = zip(rows, seen, explanations, p_values, unusual, strict=True)
    return [Case(series, tuple(reasons[row]), why, losses.get(row), *new) for row, series, why, *new in columns]


def _reasons(predicted: Predicted, judgement: Judgement | None, training: bool, most: int) -> dict[int, list[str]]:
    """Why series are explained, by row in the order of their first reason; every reason adds `most` if it can."""
    orders: list[tuple[str, np.ndarray]] = []
    rows = None if judgement is None else judgement.rows
    if not training or rows is None:
        orders.append(("most uncertain", np.argsort(-predicted.doubt, kind="stable")))
    if judgement is not None and rows is not None:
        orders += [("most uncertain", rows[np.argsort(-judgement.doubt, kind="stable")])] * training
        orders.append(("most surprising", rows[np.argsort(-judgement.loss, kind="stable")]))
    if predicted.scores is not None and not training:
        orders.append(("most novel", np.argsort(-predicted.scores.score.numpy(), kind="stable")))
    reasons: dict[int, list[str]] = {}
    for reason, order in orders:
        known = len(reasons)
        for row in order.tolist()[: 3 * most]:
            if len(reasons) - known < most:
                reasons.setdefault(row, []).append(reason)
    return reasons


def _as_seen(subject: Subject, batch: SeriesBatch, row: int, given: Series) -> Series:
    """A series as the model sees it, averaged if long, else with its gaps; times are stamps or points of X, or None."""
    count, name, target = int(batch.counts()[row]), given.name, given.target
    values = batch.values[row, :count].T.cpu().numpy()
    if given.values.shape[1] == count and subject.estimator.preparation_.spectrogram is None:
        values = np.concatenate([given.values, values[len(given.values) :]])  # with those of a mask
    if batch.times is not None:
        return Series(name, values, batch.times[row, :count].cpu().numpy(), target)
    raw = count if batch.statistics is None else int(batch.statistics[row, -len(OF_SERIES)])
    times = None if raw <= count else (np.arange(count) + 0.5) * raw / count - 0.5
    return Series(name, values, times, target)


def _data(subject: Subject, groups: list[str] | None, target: str, clock: TimeFormat | None) -> Data:
    assert subject.batch.statistics is not None
    every = range(len(subject.names))
    statistics, channels = subject.batch.statistics.cpu().numpy(), subject.channels
    moments = statistics[:, : -len(OF_SERIES)].reshape(len(statistics), len(channels), len(OF_CHANNELS))
    return Data(
        channels=channels,
        timed=subject.estimator.preparation_.time_channel is not None,
        time_format=clock,
        lengths=statistics[:, -len(OF_SERIES)].astype(int),
        missing=statistics[:, -1],
        levels=moments[..., 0],
        spreads=moments[..., 1],
        classes=None if subject.codes is None or subject.classes is None else [*map(subject.target, every)],
        numbers=subject.numbers,
        groups=groups,
        examples=_examples(subject),
        target=target,
        facts=_fact_rows(subject),
    )


def _fact_rows(subject: Subject) -> list[tuple[str, str]]:
    """Rows about the facts beside the series: the range of a number, or how many series have a level."""
    rows = []
    for index, fact in enumerate(getattr(subject.estimator, "facts_", ())):
        values = subject.batch.facts[:, index].cpu().numpy()  # pyright: ignore[reportOptionalSubscript] - fit had them
        numbers = np.isfinite(values) & (fact.levels is None)
        parts = []
        if numbers.any():
            low, middle, high = np.quantile(values[numbers], [0, 0.5, 1])
            parts = [f"{low:.6g} to {high:.6g}, median {middle:.6g}"]
        texts = Counter(map(fact.text, values[~numbers].tolist())).most_common(_FRAMES)
        rows.append((fact.name, ", ".join([*parts, *(f"{count} {text}" for text, count in texts)])))
    return rows


def _examples(subject: Subject) -> list[Series]:
    """A few series as they were handed in: of the most frequent classes, or from the smallest to the largest number."""
    shuffled = np.random.default_rng(subject.seed).permutation(len(subject.names)).tolist()
    if subject.codes is None:
        rows = shuffled[:_FRAMES]
    elif subject.classes is None:
        order = np.argsort(subject.codes.numpy(), kind="stable")
        rows = order[np.linspace(0, len(order) - 1, min(_FRAMES, len(order))).astype(int)].tolist()
    else:
        codes = subject.codes.tolist()
        common = sorted(code for code, _ in Counter(codes).most_common(_FRAMES))
        rows = [row for code in common for row in [i for i in shuffled if codes[i] == code][:_LINES]]
    return _as_given(subject, rows)


def _as_given(subject: Subject, rows: Sequence[int]) -> list[Series]:
    """Some series as they were handed in, with their gaps."""
    readings = subject.estimator.preparation_.readings(subject.rows(rows))
    both = zip(rows, readings, strict=True)
    return [Series(subject.names[row], values, times, subject.target(row)) for row, (values, times) in both]


def _novelty(subject: Subject, scores: Scores | None) -> NoveltyScores | None:
    novelty = subject.committee.novelty
    if scores is None or novelty is None:
        return None
    alarms = novelty.alarms(scores.score).numpy()
    reasons = Counter(np.array(scores.reasons(*subject.estimator._described()), dtype=object)[alarms].tolist())
    known = scores.score.numpy(), novelty.left_out_scores.numpy(), float(novelty.limit)
    return NoveltyScores(*known, int(alarms.sum()), next((reason for reason, _ in reasons.most_common(1)), None))


def _map(subject: Subject, predicted: Predicted, judgement: Judgement | None) -> tuple[Any, Any]:
    """Some series, by their rows, and their places on a map, or None, as for more classes than colours."""
    most = len(CLASSES) * len(MARKERS)
    if not isinstance(judgement, ClassJudgement) or judgement.rows is None or len(judgement.classes) > most:
        return None, None
    rows = np.arange(len(judgement))
    if len(rows) > _MAPPED:
        rows = np.sort(np.random.default_rng(subject.seed).choice(len(rows), _MAPPED, replace=False))
    if len(judgement.classes) > 2 and judgement.left_out:
        return rows, subject.committee.left_out.mean[torch.as_tensor(rows)].cpu().numpy()
    if len(judgement.classes) > 2:
        return rows, predicted.latents[judgement.rows[rows]].cpu().numpy()
    if len(rows) < 3 or subject.committee.landmarks is None:
        return None, None
    return rows, kernel_directions(subject.estimator, subject.batch[torch.from_numpy(judgement.rows[rows])])


def _origin(subject: Subject, source: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Rows about data, seeds, versions and settings; `source` are the first."""
    estimator, batch, known = subject.estimator, subject.batch, environment()
    rows = [*source, ("SHA-256 of the series of this page", digest(batch.values, batch.lengths, batch.times))]
    if subject.codes is not None:
        rows.append(("SHA-256 of their answers", digest(subject.codes)))
    return [
        *rows,
        ("SHA-256 of the training data", str(getattr(estimator, "fingerprint_", "not kept"))),
        ("seed of the fit", str(getattr(estimator, "random_state", None) or 0)),
        ("seed of this page", str(subject.seed)),
        ("versions", ", ".join(f"{name} {version}" for name, version in known["versions"].items())),
        ("machine", f"{known['machine']['architecture']}, {known['simd'] or 'no native core'}"),
        ("settings of the fit", changed_settings(estimator) or "all at their defaults"),
    ]


def changed_settings(estimator: Any) -> str:
    """Returns the settings of the model that are not the defaults."""
    return ", ".join(f"{name}={value!r}" for name, value in changed_values(estimator).items())


def changed_values(estimator: Any) -> dict[str, Any]:
    """Returns the same by name."""
    defaults = {name: one.default for name, one in inspect.signature(type(estimator)).parameters.items()}
    values = {name: getattr(estimator, name) for name in defaults if name not in NOT_OF_THE_MODEL}
    return {
        key: one for key, one in values.items() if not (isinstance(one, type(defaults[key])) and one == defaults[key])
    }


def _one_a_series(name: str, values: Any, n: int) -> list[str] | None:
    """Groups or names (n,) as text."""
    if values is None:
        return None
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one a series; got {array.shape}")
    return [str(value) for value in array.tolist()]


def _commands(
    path: str | os.PathLike[str], subject: Subject, settings: dict[str, Any], grouped: bool
) -> list[tuple[str, str]]:
    usual = {"title": None, "target": None, "explained": 2, "random_state": 0}
    more = [f"{name}={value!r}" for name, value in settings.items() if value != usual[name]]
    answers, name = [] if subject.codes is None else ["y_page"], os.path.basename(os.fspath(path))
    words = ["X_page", *answers, f"path={name!r}", *["groups=groups_page"] * grouped, *more]
    words += ["facts=facts_page"] * bool(subject.estimator.facts_)
    return [("In Python", f"{fit_call(subject.estimator)}\nestimator.report({', '.join(words)})")]


def fit_call(estimator: Any) -> str:
    """Returns the line of Python that fits such an estimator, with all settings that decide about the model."""
    settings = [changed_settings(estimator)] if changed_settings(estimator) else []
    settings += [f"random_state={estimator.random_state!r}"] if estimator.random_state else []
    groups = ", groups=groups" if getattr(estimator, "n_groups_", None) else ""
    facts = ", facts=facts" if estimator.facts_ else ""
    return f"estimator = {type(estimator).__name__}({', '.join(settings)}).fit(X, y{groups}{facts})"
