"""Around a fit: the cache of signatures, the history, the split, the time limit and what is refused."""

import json
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.random_paths import generator
from helpers.small_models import QUIET, labels, same_state, series, small_gp, targets
from siggpde.gp.cache import SignatureCache
from siggpde.gp.likelihoods import Gaussian, Softmax
from siggpde.gp.trainer import split_rows
from siggpde.gp.training import _warn_if_diverged
from siggpde.series import SeriesBatch
from siggpde.training import History, NaturalGradients, PaperSchedule, Record, fit

NATURAL = NaturalGradients(max_iter=4, settle=1e-12, inner=2)
PAPER = PaperSchedule(iterations=5, batch=8, evaluate_every=2)
schedules = pytest.mark.parametrize("schedule", [NATURAL, PAPER], ids=["natural", "paper"])
X = series(60)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_cache_in_a_file_is_the_one_in_memory(dtype: torch.dtype):
    models = [small_gp(Gaussian(0.2), 7, order="energy", dtype=dtype) for _ in range(2)]
    for model, budget in zip(models, (2**31, 100), strict=True):
        fit(model, (X, targets(X)), NATURAL, memory_budget=budget, **QUIET)
    assert same_state(*models)
    cache = SignatureCache(SeriesBatch(X), models[0].features.words, models[0].kernel.log_theta, dtype=dtype, budget=0)
    assert cache.on_disk
    folder = Path(cache._folder.name)
    assert (folder / "signatures").stat().st_size == 60 * 7 * dtype.itemsize
    del cache
    assert not folder.exists()


@pytest.mark.parametrize("case", ["infinite", "finite", "all words", "subset", "normalized"])
def test_a_cache_sees_what_the_model_sees_when_the_scales_have_moved(case: str):
    kernel = {
        "finite": {"depth": 4},
        "subset": {"depth": 4},
        "all words": {"depth": 2},
        "normalized": {"normalized": True},
    }
    model = small_gp(count=7, theta=[0.6, 0.9], amplitude=1.4, tol=1e-12, **kernel.get(case, {}))
    pool = model.kernel.words if case == "finite" else [*model.features.words, (1, 1, 0), (0, 1, 0)]
    pool = model.features.words if case == "subset" else pool
    lengths = torch.randint(1, 7, (60,), generator=generator(0))
    cache = SignatureCache(SeriesBatch(X, lengths), pool, model.kernel.log_theta)
    with torch.no_grad():
        model.kernel.log_theta.add_(torch.tensor([0.3, -0.2]))
    rows = torch.tensor([5, 0, 33])
    for got, wanted in (
        (cache.project(model), model.project(X, lengths=lengths)),
        (cache.project(model, rows), model.project(X[rows], lengths=lengths[rows])),
    ):
        for name in ("features", "variance", "tail"):
            assert torch.allclose(getattr(got, name), getattr(wanted, name), rtol=1e-10, atol=1e-10)
        slopes = [
            torch.autograd.grad(s.features.sum() + 3 * s.tail.sum() + s.variance.sum(), list(model.kernel.parameters()))
            for s in (got, wanted)
        ]
        assert all(torch.allclose(a, b, rtol=1e-8, atol=1e-8) for a, b in zip(*slopes, strict=True))
    with torch.no_grad():
        assert torch.allclose(cache.project(model).tail, model.project(X, lengths=lengths).tail, atol=1e-10)


def test_the_history_says_what_happened(tmp_path: Path):
    model, y = small_gp(Softmax(3), 7, theta=0.6, order="energy"), labels(X, 3)
    history = fit(model, (X, y), NaturalGradients(max_iter=6), seed=5, **QUIET)
    assert (history.seed, history.schedule, history.rounded_tails) == (5, "NaturalGradients", 0)
    assert list(history.phase_seconds) == ["set-up", "q", "hyperparameters", "all"]
    assert history.stopped.keys() == {"q", "hyperparameters", "all"}
    assert set(history.stopped.values()) <= {"settled", "6 iterations", "no more improvement"}
    for phase in ("q", "all"):
        joint = [r.elbo for r in history.of(phase) if r.elbo is not None][phase == "q" :]  # q begins with a batch step
        assert all(later >= earlier - 1e-10 for earlier, later in pairwise(joint))
    assert all(len(r.theta or []) == 2 and (r.amplitude or 0) > 0 for r in history.records)
    assert len({tuple(r.theta) for r in history.of("hyperparameters")}) == len(history.of("hyperparameters"))
    seconds = [r.seconds for r in history.records]
    assert seconds == sorted(seconds) and seconds[-1] <= history.seconds + 0.05
    validated = [r for r in history.records if r.nlpp is not None]
    assert all(r.accuracy is not None and 0 <= r.accuracy <= 1 for r in validated) and len(validated) >= 2
    assert history.elbo == pytest.approx(model.elbo(X, y).item() / 60, rel=1e-9)
    history.save(tmp_path / "history.json")
    again = History.from_dict(json.loads((tmp_path / "history.json").read_text()))
    assert again == history and str(again) == str(history) and "NaturalGradients: set-up" in str(history)


@schedules
def test_every_phase_is_cut_short_by_the_time_limit(schedule: Any):
    model, y = small_gp(Gaussian(0.2), 7, theta=0.6), targets(X)
    history = fit(model, (X, y), schedule, time_limit=1e-9, **QUIET)
    assert history.stopped == dict.fromkeys(("q", "hyperparameters", "all"), "time limit")
    assert torch.isfinite(model.predict_f(X)[0]).all()


@pytest.mark.parametrize(("n", "share"), [(50, 0.2), (333, 0.1), (100, 0.29), (64, 0.5)])
def test_the_split_is_stratified_and_disjoint(n: int, share: float):
    y = (torch.rand(n, generator=generator(n)) ** 2 * 4).long()
    train, valid = split_rows(share, y, True, generator(0))
    assert torch.equal(torch.cat([train, valid]).sort().values, torch.arange(n))
    assert torch.equal(train, train.sort().values) and torch.equal(valid, valid.sort().values)
    for label in range(4):
        members = int((y == label).sum())
        assert int((y[valid] == label).sum()) == int(share * members + 1e-9)
    regression = split_rows(share, y.double(), False, generator(0))
    assert len(regression[1]) == int(share * n + 1e-9)
    assert not torch.equal(split_rows(share, y, True, generator(1))[1], valid)


def test_splits_that_are_given_and_splits_that_are_not_made():
    y = torch.zeros(49)
    for share in (0.0, 0.2, 0):
        train, valid = split_rows(share, y, False, generator(0))
        assert torch.equal(train, torch.arange(49)) and len(valid) == 0
    train, valid = split_rows(([4, 1], [0]), y, False, generator(0))
    assert train.tolist() == [1, 4] and valid.tolist() == [0]
    for wrong in (([], [1]), ([1, 2], [2]), ([1, 49], []), ([-1], [2]), ([1, 1], [])):
        with pytest.raises(ValueError, match="two disjoint lists of row numbers below 49"):
            split_rows(wrong, y, False, generator(0))
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="a share from 0 up to 1"):
            split_rows(share, y, False, generator(0))


def test_fit_says_what_is_wrong_with_the_data():
    model, y = small_gp(Gaussian(0.2), 7, theta=0.6), targets(X)
    with pytest.raises(ValueError, match="60 series but 59 targets"):
        fit(model, (X, y[1:]))
    with pytest.raises(ValueError, match="no series to train on"):
        fit(model, (X[:0], y[:0]))
    bad = X.clone()
    bad[41, 2, 1] = float("inf")
    with pytest.raises(ValueError, match="in series 41, at time index 2, channel 1"):
        fit(model, (bad, y), **QUIET)
    one = small_gp(Softmax(2), 3)
    fit(one, (X[:1], [1]), **QUIET)
    assert one.predict(X[:1])[0, 1] > 0.5


def test_a_defect_is_named_by_the_number_of_its_series(monkeypatch: pytest.MonkeyPatch):
    model = small_gp(count=7)
    cache = SignatureCache(SeriesBatch(X), model.features.words, model.kernel.log_theta)
    norms = model.kernel.squared_norm(X).detach()
    norms[41] = 0.5
    monkeypatch.setattr(cache, "_squared_norms", lambda _, rows: norms if rows is None else norms[rows])
    with torch.no_grad():
        for rows in (None, torch.tensor([3, 41, 7])):
            with pytest.raises(ArithmeticError, match="series 41: its features"):
                cache.project(model, rows)


def test_a_fit_that_is_lost_says_so():
    history = History(records=[Record("all", 0, 1.0, elbo=-1e22)])
    with pytest.warns(RuntimeWarning, match="the fit is lost"):
        _warn_if_diverged(history)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_if_diverged(History(records=[Record("all", 0, 1.0, elbo=-3.0)]))
        _warn_if_diverged(History())
