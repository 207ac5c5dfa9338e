"""Fits that every rank runs with its part of the series, and the processes that run them."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from siggpde.likelihoods import Bernoulli, Gaussian, LeastSquares, Likelihood, Softmax, StudentT
from siggpde.model import SignatureGP
from siggpde.ranks import ALONE, Ranks
from siggpde.training import Exact, NaturalGradients, PaperSchedule, fit
from siggpde.training.schedules import Schedule
from small_models import labels, series, small_gp, targets

N = 61
CUTS = {1: [0, N], 2: [0, 17, N], 3: [0, 30, 33, N]}
"""Where the parts of so many ranks begin and end: unequal, one with fewer series than a minibatch has by far."""

Job = Callable[[Ranks, Path], Any]


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
    more = {key: settings.pop(key) for key in ("validation", "checkpoint", "resume", "lengths") if key in settings}
    torch.manual_seed(0)
    model = small_gp(likelihood, count, **settings)
    x, y = data(kind)
    mine = part(ranks)
    if "lengths" in more:
        more["lengths"] = more["lengths"][mine]
    history = fit(model, (x[mine], y[mine]), schedule, ranks=ranks, progress=False, **more)
    return facts_of(model, history)


def facts_of(model: SignatureGP, history: Any) -> dict[str, Any]:
    records = [(r.elbo, r.nlpp, r.accuracy, r.amplitude, r.theta) for r in history.records]
    words = [list(word) for word in model.features.words]
    return {"state": dict(model.state_dict()), "records": records, "stopped": history.stopped, "words": words}


FAST = NaturalGradients(max_iter=17, inner=3, batch=10, settle=1e-9, patience=30)
FITS: dict[str, Callable[..., dict[str, Any]]] = {
    "paper": lambda r, **s: fitted(
        r, "classes", Softmax(3), PaperSchedule(iterations=17, batch=7, learning_rate=0.01, evaluate_every=5), **s
    ),
    "paper diagonal": lambda r: fitted(
        r, "numbers", Gaussian(0.1), PaperSchedule(iterations=20, batch=2, learning_rate=0.01), covariance="diagonal"
    ),
    "natural": lambda r, **s: fitted(r, "classes", Softmax(3), FAST, order="energy", **s),
    "natural stochastic": lambda r: fitted(
        r, "two", Bernoulli(), NaturalGradients(max_iter=50, inner=2, batch=4, patience=40, max_joint=5)
    ),
    "natural not concave": lambda r: fitted(r, "numbers", StudentT(), FAST, covariance="diagonal", validation=0.0),
    "natural shared": lambda r: fitted(r, "classes", LeastSquares(3), FAST, covariance="shared", normalized=True),
    "exact classes": lambda r: fitted(r, "classes", LeastSquares(3), Exact(), covariance="shared", normalized=True),
    "exact numbers": lambda r: fitted(r, "numbers", Gaussian(0.1), Exact(max_tuned=40), depth=3, count=15),
    "lengths": lambda r: fitted(
        r, "numbers", Gaussian(0.1), FAST, lengths=torch.arange(N) % 4 + 4, order="energy", validation=0.0
    ),
}


def run(count: int, job: str, folder: Path, *, module: str = "rank_jobs", seconds: float = 60.0) -> list[Any]:
    """What the job, a function of the module, gives on each of `count` ranks; an exception is its text."""
    address = folder / f"meet-{job}-{count}"
    mp.spawn(_work, (count, module, job, str(folder), str(address), seconds), nprocs=count)  # pyright: ignore
    return [torch.load(folder / f"{job}-{count}-{rank}.pt", weights_only=True) for rank in range(count)]


def _work(rank: int, count: int, module: str, job: str, folder: str, address: str, seconds: float) -> None:
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=seconds)
    dist.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=count, timeout=limit)
    work: Job = getattr(__import__(module), job)
    try:
        found = work(Ranks(dist.group.WORLD), Path(folder))
    except Exception:
        found = traceback.format_exc()
    torch.save(found, Path(folder) / f"{job}-{count}-{rank}.pt")
    dist.destroy_process_group()


def every_fit(ranks: Ranks, folder: Path) -> dict[str, Any]:
    return {name: run(ranks) for name, run in FITS.items()}


if __name__ == "__main__":
    import sys
    import time

    started = time.time()
    for name, run_fit in FITS.items():
        run_fit(ALONE)
        print(name, time.time() - started, file=sys.stderr)
