"""Fits that every rank runs with its part of the series, and the processes that run them."""

import datetime
import multiprocessing
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from helpers.interruptions import Interruption, interrupt
from helpers.small_estimators import estimator, outputs, rising
from helpers.small_models import labels, series, small_gp, targets
from siggpde import SigGPClassifier
from siggpde.committee.fit import ViewSettings, fit_view_committee
from siggpde.committee.regression import Targets
from siggpde.distributed.ranks import Ranks
from siggpde.distributed.shard import Shard, all_labels
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Likelihood, Softmax, StudentT
from siggpde.gp.training import Schedule
from siggpde.io import SeriesData
from siggpde.series import Preparation, SeriesBatch
from siggpde.series.related import find_related
from siggpde.training import Exact, NaturalGradients, PaperSchedule, fit

N = 61
CUTS = {1: [0, N], 2: [0, 17, N], 3: [0, 30, 33, N]}
"""Where the parts of so many ranks begin and end: unequal, one with fewer series than a minibatch has by far."""


def part(ranks: Ranks) -> slice:
    start, stop = CUTS[ranks.count][ranks.rank : ranks.rank + 2]
    return slice(start, stop)


def data(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    x = series(N, length=7, channels=2)
    return x, {"classes": labels(x, 3), "two": labels(x, 2), "numbers": targets(x)}[kind]


def fitted(
    ranks: Ranks, kind: str, likelihood: Likelihood, schedule: Schedule, count: int = 9, **settings: Any
) -> dict[str, Any]:
    """What a fit leaves: the model's state, and the records and reasons of its history."""
    names = ("validation", "checkpoint", "checkpoint_every", "resume", "lengths")
    more = {name: settings.pop(name) for name in names if name in settings}
    torch.manual_seed(0)
    model = small_gp(likelihood, count, **settings)
    x, y = data(kind)
    mine = part(ranks)
    if "lengths" in more:
        more["lengths"] = more["lengths"][mine]
    history = fit(model, (x[mine], y[mine]), schedule, ranks=ranks, progress=False, **more)
    records = [(r.elbo, r.nlpp, r.accuracy, r.amplitude, r.theta) for r in history.records]
    words = [list(word) for word in model.features.words]
    return {"state": dict(model.state_dict()), "records": records, "stopped": history.stopped, "words": words}


FAST = NaturalGradients(max_iter=9, inner=3, batch=10, settle=1e-9, patience=30)
PAPER = PaperSchedule(iterations=17, batch=7, learning_rate=0.01, evaluate_every=5)
FEW = PaperSchedule(iterations=6, batch=2, learning_rate=0.01)
STOCHASTIC = NaturalGradients(max_iter=50, inner=2, batch=4, patience=20, max_joint=5)
FITS: dict[str, Callable[..., dict[str, Any]]] = {
    "paper": lambda r, **s: fitted(r, "classes", Softmax(3), PAPER, **s),
    "natural": lambda r, **s: fitted(r, "classes", Softmax(3), FAST, order="energy", **s),
    "exact": lambda r: fitted(r, "numbers", Gaussian(0.1), Exact(), normalized=True),
    "exact of some": lambda r: fitted(r, "numbers", Gaussian(0.1), Exact(max_tuned=40), depth=3, count=15),
}
MORE: dict[str, Callable[..., dict[str, Any]]] = {
    "paper diagonal": lambda r: fitted(r, "numbers", Gaussian(0.1), FEW, covariance="diagonal"),
    "natural stochastic": lambda r: fitted(r, "two", Bernoulli(), STOCHASTIC),
    "natural not concave": lambda r: fitted(r, "numbers", StudentT(), FAST, covariance="diagonal", validation=0.0),
    "natural shared": lambda r: fitted(r, "classes", Softmax(3), FAST, covariance="shared", normalized=True),
    "lengths": lambda r: fitted(r, "numbers", Gaussian(0.1), FAST, lengths=LENGTHS, order="energy", validation=0.0),
}
LENGTHS = torch.arange(N) % 4 + 4
BY_TWO = ("paper", "natural", "exact")
BROKEN = ("paper", "natural")


def interrupted(name: str, ranks: Ranks, state: Path) -> None:
    """Runs a fit up to an iteration of its second phase, with a checkpoint after every one."""
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, "hyperparameters", 4)
        with pytest.raises(Interruption):
            FITS[name](ranks, checkpoint=state, checkpoint_every=0.0)


def estimated(ranks: Ranks, *kinds: tuple[str, str]) -> dict[str, Any]:
    """What estimators fitted with parts of the series predict, and what they know of all.

    Kinds are an estimator and its likelihood; all but "auto" are those of method="paper".
    """
    X, y = rising(40, classes=4)
    names = np.array(["north", "east", "south", "west"])[np.sort(y)]  # no rank has all the classes
    ragged = [one[:, : 12 - number % 3] for number, one in enumerate(X[np.argsort(y, kind="stable")])]
    numbers = [one[0, -1] + number % 2 for number, one in enumerate(ragged)]
    mine = slice(40 * ranks.rank // ranks.count, 40 * (ranks.rank + 1) // ranks.count)
    results: dict[str, Any] = {}
    sites: list[Any] = ["one", "two", None, 3.0]  # of which some ranks see some
    beside = {"age": np.arange(40.0)[::-1] % 7, "site": np.array([sites[row // 10] for row in range(40)], dtype=object)}
    whole = SeriesData(ragged, y=names, facts=beside)
    trained = estimator("classifier", members=2).fit(whole[mine], ranks=ranks)
    known = [trained.fingerprint_, [list(fact) for fact in trained.facts_]]
    results["facts"] = [torch.from_numpy(outputs(trained, whole)), known, trained.classes_.tolist()]
    for kind, likelihood in kinds or (("classifier", "auto"), ("classifier", "robustmax")):
        weighted = {"class_weight": "balanced"} if kind == "classifier" else {}
        named = {"members": 2} if likelihood == "auto" else {"method": "paper", "likelihood": likelihood}
        chosen = estimator(kind, **named, **weighted)
        trained = chosen.fit(ragged[mine], (names if weighted else numbers)[mine], ranks=ranks)
        facts = [trained.fingerprint_, trained.n_series_, list(trained.length_range_)]
        classes = getattr(trained, "classes_", np.empty(0)).tolist()
        results[f"{kind} {likelihood}"] = [torch.from_numpy(outputs(trained, ragged)), facts, classes]
    return results


def relatives(ranks: Ranks) -> list[Any]:
    """What is said of copies, noisy copies and windows, whose relatives are on other ranks."""
    walks = np.random.default_rng(0).normal(size=(13, 2, 60)).cumsum(axis=2)
    windows = [walks[:, :, start : start + 30] for start in range(0, 31, 10)]
    noisy = [walks + 1e-4 * np.random.default_rng(seed).normal(size=walks.shape) for seed in range(3)]
    found = []
    for made in (np.concatenate([walks, walks[::-1]]), np.concatenate(noisy), np.concatenate(windows)):
        mine = made[len(made) * ranks.rank // ranks.count : len(made) * (ranks.rank + 1) // ranks.count]
        batch = Preparation().fit_transform(mine, ranks=ranks)
        related = find_related(mine, batch, None, Shard(ranks, len(mine)))
        pairs = sorted((*sorted(pair[:2]), abs(pair[2])) for pair in related.pairs.tolist())
        found.append([str(related), related.family.tolist(), [list(pair) for pair in pairs]])
    return found


def failing(ranks: Ranks) -> list[str]:
    """What is said on this rank when one of them cannot go on, or has other settings."""
    x, y = data("numbers")
    mine = part(ranks)
    broken = x.clone()
    broken[40, 2, 1] = torch.nan  # the third rank has it
    trials: list[Callable[[], Any]] = [
        lambda: fit(small_gp(), (broken[mine], y[mine]), Exact(), ranks=ranks),
        lambda: fit(small_gp(), (x[mine], y[mine]), PaperSchedule(iterations=1 + ranks.rank), ranks=ranks),
        lambda: fit(small_gp(), (x[mine][: ranks.rank], y[mine][: ranks.rank]), Exact(), ranks=ranks),
        lambda: all_labels(np.array(["a"] if ranks.rank else [1]), ranks),
        lambda: ranks.broadcast(lambda: {}["nothing"]),
    ]
    said = []
    for trial in trials:
        try:
            trial()
            said.append("nothing")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def tools(ranks: Ranks) -> dict[str, Any]:
    of_this_rank = torch.arange(ranks.rank + 1) + 10 * ranks.rank
    parameter = torch.nn.Parameter(torch.zeros(2))
    if ranks.rank:
        parameter.grad = torch.ones(2)
    ranks.all_reduce_gradients([parameter])
    return {
        "sum": ranks.all_reduce_sum(torch.tensor([0.1, 1.0]), torch.tensor(ranks.rank)),
        "most": ranks.all_reduce_max(torch.tensor([ranks.rank, -ranks.rank])),
        "gather": ranks.all_gather_rows(of_this_rank),
        "places": ranks.all_gather_rows(of_this_rank[:1], torch.tensor([2 - ranks.rank]), 3),
        "first": ranks.broadcast(lambda: {"rank": ranks.rank}),
        "same": ranks.broadcast_value(ranks.rank + 0.5),
        "all": ranks.all_gather([ranks.rank]),
        "to_first": ranks.gather_rows(of_this_rank),
        "gradient": parameter.grad,
    }


def everything(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """All that the fast tests look at, by three ranks and by the first two of them."""
    pair: Any = dist.new_group([0, 1])
    results: dict[str, Any] = {"tools": tools(ranks), "failing": failing(ranks)}
    results["fits"] = {name: run_fit(ranks) for name, run_fit in FITS.items()}
    results["estimated"] = estimated(ranks)
    results["relatives"] = relatives(ranks)
    results["pair"] = {}
    if ranks.rank < 2:
        two = Ranks(pair)
        results["pair"] = {name: FITS[name](two) for name in BY_TWO}
        for name in BROKEN:
            interrupted(name, two, folder / f"{name}-by-two")
    results["resumed"] = {}
    for name in BROKEN:
        if ranks.leads:
            shutil.copy(folder / f"{name}-by-two", folder / f"{name}-by-three")
        results["resumed"][name] = FITS[name](ranks, checkpoint=folder / f"{name}-by-three", resume=True)
    return results


def more(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """All that a slow test looks at."""
    results: dict[str, Any] = {"fits": {name: run_fit(ranks) for name, run_fit in MORE.items()}}
    kinds = [("classifier", "softmax"), ("regressor", "auto"), ("regressor", "student_t")]
    return results | {"estimated": estimated(ranks, *kinds)}


def waves(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy waves (n, 1, 24) of three frequencies and any phase, which windows tell apart, and their frequencies."""
    random, labels = np.random.default_rng(seed), np.arange(n) % 3
    cycles = np.arange(24) * (labels[:, None] + 2) / 24 + random.random((n, 1))
    return (np.sin(2 * np.pi * cycles) + random.normal(size=(n, 24)))[:, None], labels


def many_series(ranks: Ranks, folder: Path | None = None, **settings: Any) -> dict[str, Any]:
    """A committee of more series than landmarks, more than one chunk of them on each of two ranks."""
    X, y = waves(2500, 0)
    cut = [0, 1100, 2500] if ranks.count == 2 else [0, 2500]
    mine = slice(cut[ranks.rank], cut[ranks.rank + 1])
    batch = SeriesBatch(torch.from_numpy(X.transpose(0, 2, 1)[mine].copy()), first=mine.start)
    chosen = ViewSettings(**{"kinds": ("windows", "path", "kernel"), "max_landmarks": 60, **settings})
    committee = fit_view_committee(batch, Targets(torch.from_numpy(y), 3), chosen, Shard(ranks, len(batch)))
    new = SeriesBatch(torch.from_numpy(waves(200, 1)[0].transpose(0, 2, 1).copy()))
    members = [member.recipe.name for member in committee.members]
    landmarks = 0 if committee.landmarks is None else len(committee.landmarks)
    others = 0 if committee.others is None else len(committee.others)
    probabilities = committee.probabilities(new)
    return {"members": members, "landmarks": landmarks, "others": others, "probabilities": probabilities}


def exact_series(ranks: Ranks, folder: Path | None = None) -> dict[str, Any]:
    """The same, all series counting for some members."""
    return many_series(ranks, folder, kinds=("windows", "path"), exact=2500)


def default_classifier(ranks: Ranks, folder: Path | None = None) -> dict[str, Any]:
    """The classifier of all defaults, of more series than there can be landmarks."""
    X, y = waves(2200, 0)
    mine = slice(2200 * ranks.rank // ranks.count, 2200 * (ranks.rank + 1) // ranks.count)
    fitted = SigGPClassifier().fit(X[mine], y[mine], ranks=ranks)
    members = [member.recipe.name for member in fitted.committee_.members]
    return {"members": members, "probabilities": torch.from_numpy(fitted.predict_proba(waves(200, 1)[0]))}


def run(count: int, job: str, folder: Path, *, seconds: float = 600.0) -> list[Any]:
    """What the job, a function of this module, gives on each of `count` ranks; an exception is its text."""
    address = folder / f"meet-{job}-{count}"
    multiprocessing.set_forkserver_preload(["helpers.rank_jobs"])  # torch is imported once, not by each
    start_processes(_work, (count, job, str(folder), str(address), seconds), count, start_method="forkserver")
    return [torch.load(folder / f"{job}-{count}-{rank}.pt", weights_only=True) for rank in range(count)]


def _work(rank: int, count: int, job: str, folder: str, address: str, seconds: float) -> None:
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=seconds)
    dist.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=count, timeout=limit)
    work: Callable[[Ranks, Path], Any] = globals()[job]
    try:
        results = work(Ranks(dist.group.WORLD), Path(folder))
    except Exception:
        results = traceback.format_exc()
    torch.save(results, Path(folder) / f"{job}-{count}-{rank}.pt")
    dist.destroy_process_group()
