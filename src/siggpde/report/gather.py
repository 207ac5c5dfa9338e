"""Gathers what a report shows of a fitted estimator and some series, and writes the page."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.files import atomic_write
from siggpde.hashing import digest
from siggpde.installation import installation
from siggpde.plots import kernel_directions
from siggpde.progress import Progress
from siggpde.report.card import estimator_card, left_out_in_words, likelihood_name, members_of_views
from siggpde.report.class_quality import MOST_CLASSES_OF_MAP
from siggpde.report.content import (
    Case,
    ClassJudgement,
    Content,
    Data,
    Drawn,
    Fitted,
    Judgement,
    Member,
    Newness,
    NumberJudgement,
)
from siggpde.report.judgement import Predicted, judge_left_out, judge_new, predict
from siggpde.report.page import GENERATOR, page
from siggpde.report.pictures import thinned
from siggpde.report.wording import counted, listed, percent, short
from siggpde.series import SeriesBatch
from siggpde.series.batch import collect
from siggpde.series.statistics import OF_CHANNELS, OF_SERIES

_MAPPED = 1000  # series of a map
_FITTED_TO = "These are the series that the model was fitted to: predictions of them say nothing about new ones."
_NO_ANSWERS = "There are no true answers with these series, so nothing tells how good the predictions are here."


def write_report(
    estimator: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    groups: Any = None,
    ids: Sequence[Any] | None = None,
    title: str | None = None,
    target: str | None = None,
    explained: int = 2,
    seed: int = 0,
    force: bool = False,
    source: Sequence[tuple[str, str]] = (),
    commands: Sequence[tuple[str, str]] | None = None,
) -> str:
    """Writes the page and returns its path. `source` are rows about where the data come from, `commands` titles and
    commands that make the page again."""
    estimator._check_fitted()
    check_path(path, force)
    if isinstance(explained, bool) or not isinstance(explained, int) or explained < 0:
        raise ValueError(
            f"explained must be a whole number from 0, the series of each kind to explain; got {explained!r}"
        )
    with Progress(None if getattr(estimator, "verbose", 0) else False) as bar:
        bar.start("report", 5)
        content = gather(
            estimator, X, y, bar, groups, ids, title, target, explained, seed, source, commands or _commands(path)
        )
        html = page(content)
        bar.step()
    with atomic_write(Path(path)) as file:
        file.write(html.encode())
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


def gather(
    estimator: Any,
    X: Any,
    y: Any,
    bar: Progress,
    groups: Any,
    ids: Sequence[Any] | None,
    title: str | None,
    target: str | None,
    explained: int,
    seed: int,
    source: Sequence[tuple[str, str]],
    commands: Sequence[tuple[str, str]],
) -> Content:
    """Everything on the page."""
    classifies = hasattr(estimator, "classes_")
    codes = None if y is None else estimator._known_targets(y)
    batch = estimator._batch(X, None if codes is None else len(codes))
    n = len(batch)
    of_groups = _per_series("groups", groups, n)
    names = _per_series("ids", ids, n) or [str(row) for row in range(n)]
    answers = None if codes is None else _answers(estimator, codes)
    bar.step()
    with estimator._threads(batch):
        predicted = predict(estimator, batch)
        training = codes is not None and estimator.is_fitted_to(X, y)
        judged: Judgement | None = None
        whose = None if of_groups is None else np.array(of_groups)
        if codes is not None:
            judge = judge_left_out(estimator, batch, codes, whose) if training else None
            judged = judge if training else judge_new(estimator, batch, codes, predicted, whose)
    bar.step()
    importances = estimator.importance(X, top=10) if n > 1 else None
    bar.step()
    why, losses = choose(predicted, judged, training, min(explained, n))
    explanations = cases(estimator, X, answers, names, predicted, why, losses, seed)
    bar.step()
    remembered = getattr(estimator, "reading_", None) or {}
    called = target or remembered.get("target") or ("class" if classifies else "number")
    data = _data(estimator, X, batch, answers, of_groups, names, str(called), seed)
    fitted = fitted_of(estimator)
    new = None if training else _newness(estimator, predicted)
    rows, points = _points(estimator, X, judged, seed)
    notes = []
    if explanations and len(explanations) < n:
        notes.append(f"{len(explanations)} of {n:,} series are explained here; estimator.explain(X) explains any.")
    if training and explanations:
        notes.append("The model has learned from these series; they are explained as it predicts them now.")
    return Content(
        title=title or f"{type(estimator).__name__.removesuffix('Methods')} on {n:,} series",
        data=data,
        fitted=fitted,
        judgement=judged,
        why_no_judgement=None if judged is not None else _NO_ANSWERS if codes is None else _FITTED_TO,
        importances=importances,
        point_rows=rows,
        points=points,
        newness=new,
        cases=explanations,
        warnings=warnings_of(estimator, data, fitted, judged, training, new),
        card=estimator_card(estimator, "model"),
        origin=origin_of(estimator, batch, codes, seed, source),
        commands=commands,
        notes=notes,
        seed=seed,
    )


def _answers(estimator: Any, codes: Tensor) -> list[Any]:
    if hasattr(estimator, "classes_"):
        return estimator.classes_[codes.numpy()].tolist()
    return (estimator.target_shift_ + estimator.target_scale_ * codes).tolist()


def _per_series(name: str, values: Any, n: int) -> list[str] | None:
    if values is None:
        return None
    listed = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if listed.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one a series; got {listed.shape}")
    return [str(each) for each in listed.tolist()]


def _data(
    estimator: Any,
    X: Any,
    batch: SeriesBatch,
    y: list[Any] | None,
    groups: list[str] | None,
    names: Sequence[str],
    target: str,
    seed: int,
) -> Data:
    assert batch.facts is not None
    facts = batch.facts.cpu().numpy()
    channels = estimator._value_names()
    of_channels = facts[:, : -len(OF_SERIES)].reshape(len(facts), len(channels), len(OF_CHANNELS))
    drawn = examples(estimator, X, y, names, seed)
    lengths, missing = facts[:, -len(OF_SERIES)].astype(int), facts[:, -1]
    timed = estimator.preparation_.time_channel is not None
    return Data(channels, timed, lengths, missing, of_channels[..., 0], of_channels[..., 1], y, groups, drawn, target)


def _newness(estimator: Any, predicted: Predicted) -> Newness | None:
    scores, novelty = predicted.scores, estimator.committee_.novelty
    if scores is None or novelty is None:
        return None
    alarms = novelty.alarms(scores.score).numpy()
    told = Counter(np.array(scores.reasons(estimator._value_names()), dtype=object)[alarms].tolist())
    return Newness(
        scores.score.numpy(),
        novelty.p_values(scores.score).numpy(),
        novelty.left_out_scores.numpy(),
        float(novelty.limit),
        int(alarms.sum()),
        told.most_common(1)[0][0] if told else None,
    )


def _points(estimator: Any, X: Any, judged: Judgement | None, seed: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Some series, by their rows, and where they are on a map; None where there is none."""
    if not isinstance(judged, ClassJudgement) or judged.rows is None or len(judged.classes) > MOST_CLASSES_OF_MAP:
        return None, None
    place = thinned(len(judged.rows), _MAPPED, seed)
    if len(judged.classes) > 2:
        if judged.left_out:
            return place, estimator.committee_.left_out.mean[torch.as_tensor(place)].cpu().numpy()
        return place, estimator.latent(rows_of_X(X, judged.rows[place].tolist()))[0]
    if len(place) < 3 or not hasattr(estimator.committee_, "landmarks"):
        return None, None
    return place, kernel_directions(estimator, rows_of_X(X, judged.rows[place].tolist()))


def _commands(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    name = os.path.basename(os.fspath(path))
    return [
        ("In Python", f'estimator.report(X, y, "{name}")'),
        ("In a shell", f"siggpde report MODEL DATA --output {shlex.quote(name)}"),
    ]


_FRAMES, _LINES = 8, 4


def rows_of_X(X: Any, rows: Sequence[int]) -> Any:
    """Some of the series of X, in its own layout."""
    if isinstance(X, torch.Tensor):
        return X[torch.as_tensor(list(rows))]
    return X[np.asarray(rows, dtype=int)] if isinstance(X, np.ndarray) else [X[row] for row in rows]


def examples(estimator: Any, X: Any, y: list[Any] | None, names: Sequence[str], seed: int) -> list[Drawn]:
    """A few series as they were handed in: of the most frequent classes, or from the smallest to the largest number."""
    generator = np.random.default_rng(seed)
    if y is None:
        rows: list[int] = generator.permutation(len(names))[:_FRAMES].tolist()
    elif isinstance(y[0], float):
        order = np.argsort(y, kind="stable")
        rows = order[np.linspace(0, len(y) - 1, min(_FRAMES, len(y))).astype(int)].tolist()
    else:
        shuffled = generator.permutation(len(y)).tolist()
        common = [label for label, _ in Counter(y).most_common(_FRAMES)]
        common = sorted(common, key=lambda label: (str(type(label)), label))
        rows = [row for label in common for row in [i for i in shuffled if y[i] == label][:_LINES]]
    raw = collect(rows_of_X(X, rows))
    time = estimator.preparation_.time_channel
    drawn = []
    for place, (row, count) in enumerate(zip(rows, raw.counts().tolist(), strict=True)):
        values, times = raw.values[place, :count].T.numpy(), None
        if time is not None:
            times = values[time]
            values = np.delete(values, time % len(values), axis=0)
        drawn.append(Drawn(row, names[row], values, times, None if y is None else y[row]))
    return drawn


def choose(
    predicted: Predicted, judged: Judgement | None, training: bool, each: int
) -> tuple[dict[int, list[str]], dict[int, float]]:
    """The series to explain with the reasons, and the losses that are known, both by their rows.

    Series are named for the first reason that they are found for; every reason finds `each` of its own, if it can.
    """
    why: dict[int, list[str]] = {}
    losses: dict[int, float] = {}
    known = judged is not None and judged.rows is not None
    if not training:
        _add(why, np.argsort(-predicted.doubt(), kind="stable"), "most uncertain", each)
    if judged is not None and judged.rows is not None:
        losses = dict(zip(judged.rows.tolist(), judged.loss.tolist(), strict=True))
        if training:
            of_record = Predicted(getattr(judged, "p", None), None, getattr(judged, "std", None), None, None)
            _add(why, judged.rows[np.argsort(-of_record.doubt(), kind="stable")], "most uncertain", each)
        _add(why, judged.rows[np.argsort(-judged.loss, kind="stable")], "most surprising", each)
    if training and not known:
        _add(why, np.argsort(-predicted.doubt(), kind="stable"), "most uncertain", each)
    if predicted.scores is not None and not training:
        _add(why, np.argsort(-predicted.scores.score.numpy(), kind="stable"), "most novel", each)
    return why, losses


def _add(why: dict[int, list[str]], order: np.ndarray, reason: str, each: int) -> None:
    """The first of an order that are not there yet, and the reason of those before them."""
    new = 0
    for row in order.tolist()[: 3 * each]:
        if new == each:
            break
        new += row not in why
        why.setdefault(row, []).append(reason)


def cases(
    estimator: Any,
    X: Any,
    y: list[Any] | None,
    names: Sequence[str],
    predicted: Predicted,
    why: dict[int, list[str]],
    losses: dict[int, float],
    seed: int,
) -> list[Case]:
    """The chosen series with their explanations."""
    if not why:
        return []
    rows = list(why)
    some = rows_of_X(X, rows)
    found = estimator.explain(some, top=5, random_state=seed)
    batch = estimator.preparation_(some)
    p = None
    unusual: list[str] = []
    if predicted.scores is not None:
        novelty = estimator.committee_.novelty
        p = novelty.p_values(predicted.scores.score).numpy()
        picked = type(predicted.scores)(*(part[rows] for part in predicted.scores))
        unusual = picked.reasons(estimator._value_names())
    made = []
    for place, row in enumerate(rows):
        values, times = as_seen(batch, place)
        target = None if y is None else y[row]
        made.append(
            Case(
                Drawn(row, names[row], values, times, target),
                tuple(why[row]),
                found[place],
                losses.get(row),
                None if p is None else float(p[row]),
                unusual[place] if unusual else None,
            )
        )
    return made


def as_seen(batch: SeriesBatch, row: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Values (channels, points) and times (points,) of a series as the model sees it: gaps filled, and averaged if it
    was long; times are those of X, or points of X if there are fewer than X had, or None."""
    count = int(batch.counts()[row])
    values = batch.values[row, :count].T.cpu().numpy()
    if batch.times is not None:
        return values, batch.times[row, :count].cpu().numpy()
    raw = count if batch.facts is None else int(batch.facts[row, -len(OF_SERIES)])
    if raw <= count:
        return values, None
    return values, (np.arange(count) + 0.5) * raw / count - 0.5


DEFAULTS: dict[str, Any] = {
    "method": "views",
    "likelihood": "auto",
    "views": "auto",
    "members": "auto",
    "n_features": "auto",
    "transforms": "auto",
    "time_channel": None,
    "mask": False,
    "max_points": 1000,
    "spectrogram": None,
    "class_weight": None,
    "max_iter": "auto",
    "time_limit": None,
    "device": "auto",
    "dtype": "auto",
    "keep_series": True,
}
"""The settings of an estimator that decide about the model."""


def fitted_of(estimator: Any) -> Fitted:
    """What was fitted."""
    committee = estimator.committee_
    classifies = hasattr(estimator, "classes_")
    if isinstance(committee, Committee):
        weights = committee.weights.tolist()
        method = committee.members[0].settings.get("method", "views")
        members = [
            Member(weight, f"model {index + 1}", f"{len(each.model.features.words)} words of one path", each.score)
            for index, (weight, each) in enumerate(zip(weights, committee.members, strict=True))
        ]
        kinds = ["path"]
    else:
        method = "views"
        members = [Member(*each) for each in members_of_views(committee)]
        kinds = list(dict.fromkeys(_kind(block) for block in committee.blocks))
    return Fitted(
        committee=committee,
        task="classification" if classifies else "regression",
        method=method,
        likelihood=likelihood_name(committee, classifies),
        members=members,
        kinds=kinds,
        series=estimator.n_series_,
        groups=getattr(estimator, "n_groups_", None),
        labels=estimator.summary_["labels"] if classifies else None,
        left_out=left_out_in_words(estimator),
        link=_link(estimator, likelihood_name(committee, classifies)),
        seconds=getattr(estimator, "seconds_", None),
        tried=[tuple(each) for each in getattr(estimator, "tried_", None) or []],
    )


def _kind(block: Any) -> str:
    return next(iter(block.centring)) if block.kind == "features" else block.kind


def _link(estimator: Any, likelihood: str) -> str:
    committee = estimator.committee_
    if getattr(committee, "link", None) is not None:
        return (
            "The averaged latents of the classes become probabilities by one link, a multinomial logistic regression "
            "that was fitted to left-out series: a series given 80 % is meant to be right in 80 of 100 cases. It knows "
            f"that labels can be wrong (a share of {committee.link.lapse:.2g}). Far from all training series "
            "probabilities tend to the frequencies of the classes."
        )
    if likelihood == "Gaussian":
        return (
            "The predicted number is a mixture of the members' normal distributions. How heavy its tails are was "
            "fitted to left-out series, so that intervals hold what they promise. Far from all training series "
            "predictions tend to the mean of the training series, with their spread."
        )
    return f"The likelihood is {likelihood}: what is predicted are means over the latent function."


def origin_of(
    estimator: Any, batch: SeriesBatch, codes: Tensor | None, seed: int, source: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Rows about data, seeds, versions and settings; `source` are the first."""
    known = installation()
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    rows = [*source, ("SHA-256 of the series of this page", digest(batch.values, batch.lengths, batch.times))]
    if codes is not None:
        rows.append(("SHA-256 of their answers", digest(codes)))
    rows.append(("SHA-256 of the training data", str(getattr(estimator, "fingerprint_", "not kept"))))
    rows.append(("seed of the fit", str(getattr(estimator, "random_state", None) or 0)))
    rows += [("seed of this page", str(seed)), ("versions", versions)]
    rows.append(("machine", f"{known['machine']['architecture']}, {known['simd'] or 'no native core'}"))
    changed = _settings(estimator)
    return [*rows, ("settings of the fit", changed or "all at their defaults")]


def _settings(estimator: Any) -> str:
    """Settings that are not the defaults."""
    kept = ((name, getattr(estimator, name)) for name in DEFAULTS if hasattr(estimator, name))
    changed = ((name, value) for name, value in kept if not _same(value, DEFAULTS[name]))
    return ", ".join(f"{name}={value!r}" for name, value in changed)


def _same(value: Any, default: Any) -> bool:
    return isinstance(value, type(default)) and value == default


_FEW, _FEW_OF_CLASS, _FEW_GROUPS = 100, 10, 10
_UNEVEN = 10.0
_GAPPY = 0.2
_DOUBT = 0.05


def warnings_of(
    estimator: Any, data: Data, fitted: Fitted, judged: Judgement | None, training: bool, new: Newness | None
) -> list[str]:
    """Sentences, the gravest first."""
    said: list[str] = []
    if training:
        said.append(
            "The series of this page are those that the model was fitted to"
            + (
                "; the figures are those of left-out series, and a little too good. Judge it on new ones."
                if judged is not None
                else ": they say nothing about how good it is. Judge it on new ones."
            )
        )
    if new is not None and new.alarms:
        what = "" if new.commonest is None else f" What is unusual most often: {new.commonest}."
        said.append(
            f"{counted(new.alarms, 'series', 'series')} of {len(data):,} "
            f"{'is' if new.alarms == 1 else 'are'} unlike all training series; predictions for them tell little.{what}"
        )
    link = getattr(estimator.committee_, "link", None)
    if link is not None and getattr(link, "nothing", 0.0) > _DOUBT:
        said.append(
            f"The labels may have nothing to do with the series: left-out predictions leave a probability of "
            f"{percent(link.nothing)} for that."
        )
    if isinstance(judged, ClassJudgement):
        said += _of_classes(judged)
    elif isinstance(judged, NumberJudgement):
        said += _of_numbers(judged)
    said += _of_training(fitted)
    said += _of_series(data, fitted, judged)
    return said


def _of_classes(judged: ClassJudgement) -> list[str]:
    said = []
    n = len(judged.truth)
    right = judged.p.argmax(axis=1) == judged.truth
    guess = np.bincount(judged.truth).max() / n
    error = 2 * (right.mean() * (1 - right.mean()) / n) ** 0.5
    if right.mean() - error <= guess < 1:
        said.append(
            f"It is hardly better than always naming the most frequent class, right in {percent(float(guess))}."
        )
    top = judged.p.max(axis=1)
    gap, noise = float((top - right).mean()), 2 * float((top - right).std()) / n**0.5
    if abs(gap) > max(noise, 0.01):
        way = "too sure of itself" if gap > 0 else "too cautious"
        said.append(
            f"It is {way} on these series: on average it gives its answer {percent(float(top.mean()))} and is"
            f" right in {percent(float(right.mean()))}."
        )
    absent = [str(label) for index, label in enumerate(judged.classes) if index not in set(judged.truth.tolist())]
    if absent:
        said.append(
            f"No series of class {listed([*map(short, absent)], 5)} is among these: nothing is known of them here."
        )
    return said


def _of_numbers(judged: NumberJudgement) -> list[str]:
    low, high = judged.quantiles[:, 1], judged.quantiles[:, -2]
    inside, n = float(((low <= judged.y) & (judged.y <= high)).mean()), len(judged.y)
    if abs(inside - 0.9) > max(2 * (0.09 / n) ** 0.5, 0.02):
        way = "too narrow" if inside < 0.9 else "wider than they need be"
        return [f"Intervals are {way} for these series: those of 90 % hold {percent(inside)} of the numbers."]
    return []


def _of_training(fitted: Fitted) -> list[str]:
    said = []
    if fitted.series < _FEW:
        said.append(f"The model has seen {counted(fitted.series, 'series', 'series')} only: what it knows is rough.")
    if fitted.labels:
        counts = list(fitted.labels.values())
        rare = [f"{short(label)} ({count})" for label, count in fitted.labels.items() if count < _FEW_OF_CLASS]
        if rare:
            said.append(f"Classes with fewer than {_FEW_OF_CLASS} training series are known poorly: {listed(rare, 5)}.")
        if max(counts) > _UNEVEN * max(min(counts), 1):
            said.append(
                f"Classes are uneven, from {min(counts):,} to {max(counts):,} training series: accuracy flatters, look "
                "at balanced accuracy and at the classes one by one. class_weight='balanced' lets rare ones count more."
            )
    if fitted.groups is None and fitted.left_out is not None:
        said.append(
            "The model was fitted without groups. If several series are of one person, machine or recording, what it "
            "believes of itself is too good: give groups to the fit."
        )
    if fitted.groups is not None and fitted.groups < _FEW_GROUPS:
        said.append(f"There are {fitted.groups} groups only: how well it does in new groups is known roughly.")
    return said


def _of_series(data: Data, fitted: Fitted, judged: Judgement | None) -> list[str]:
    said = []
    if judged is not None and len(judged.loss) < _FEW:
        said.append(f"It is judged on {counted(len(judged.loss), 'series', 'series')} only: mind the intervals.")
    share = float(np.average(data.missing, weights=data.lengths))
    if share > _GAPPY:
        said.append(
            f"{percent(share)} of the values are missing; they are filled by straight lines. mask=True marks gaps."
        )
    if data.groups is not None and data.y is not None and fitted.labels is not None:
        of_class: dict[str, set[str]] = {}
        for label, group in zip(data.y, data.groups, strict=True):
            of_class.setdefault(str(label), set()).add(group)
        confined = [label for label, groups in of_class.items() if len(groups) == 1]
        if confined and len(set(data.groups)) > 1:
            said.append(
                f"All series of class {listed([*map(short, confined)], 5)} are of one group: nothing tells how well "
                "the class is recognised in others."
            )
    same = Counter(data.channels)
    if same and max(same.values()) > 1:
        said.append(
            f"Several channels are called {max(same, key=lambda name: same[name])!r}: give them names of their own."
        )
    return said
