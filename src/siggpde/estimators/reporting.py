"""`estimator.report(X, y, path)`: gathers what the page shows (`siggpde.report`), and writes it."""

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

from siggpde.estimators.describing import estimator_card
from siggpde.estimators.report_cases import cases, choose, examples, rows_of_X
from siggpde.estimators.report_facts import fitted_of, origin_of
from siggpde.estimators.report_judging import Predicted, is_training, judge_left_out, judge_new, predict
from siggpde.estimators.report_warnings import warnings_of
from siggpde.estimators.settings import seed_of
from siggpde.estimators.targets import check_labels, class_indices
from siggpde.files import atomic_write
from siggpde.plots import kernel_directions
from siggpde.progress import Progress
from siggpde.report import GENERATOR, ClassJudgement, Content, Data, Newness, page
from siggpde.report.class_quality import MOST_CLASSES_OF_MAP
from siggpde.report.content import Judgement
from siggpde.report.pictures import thinned
from siggpde.series import SeriesBatch
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
    random_state: Any = None,
    force: bool = False,
    source: Sequence[tuple[str, str]] = (),
    commands: Sequence[tuple[str, str]] | None = None,
) -> str:
    """Writes the page and returns its path. `source` are rows about where the data come from, `commands` titles and
    commands that make the page again."""
    estimator._check_fitted()
    check_path(path, force)
    seed = seed_of(random_state)
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
    codes = None if y is None else _codes(estimator, y)
    batch = estimator._batch(X, None if codes is None else len(codes))
    n = len(batch)
    of_groups = _per_series("groups", groups, n)
    names = _per_series("ids", ids, n) or [str(row) for row in range(n)]
    answers = None if codes is None else _answers(estimator, codes)
    bar.step()
    with estimator._threads(batch):
        predicted = predict(estimator, batch)
        training = codes is not None and is_training(estimator, batch, codes)
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


def _codes(estimator: Any, y: Any) -> Tensor:
    """Targets as the committee has them."""
    if hasattr(estimator, "classes_"):
        return class_indices(check_labels(y), estimator.classes_)
    return (estimator._targets(y) - estimator.target_shift_) / estimator.target_scale_


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
