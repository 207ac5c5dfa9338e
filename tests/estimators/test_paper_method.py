"""`method="paper"`: SigGPDE as published, through the estimators."""

from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.base import clone
from torch.utils._python_dispatch import TorchDispatchMode

import siggpde
from helpers.refusals import assert_refused
from helpers.small_estimators import outputs, random_walks, reloaded, rising
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.datasets import load_pendigits
from siggpde.distributed.ranks import Ranks
from siggpde.distributed.shard import Shard
from siggpde.estimators import paper_method
from siggpde.estimators.paper_method import starting_scales
from siggpde.gp import kernel as kernel_module
from siggpde.gp.checkpoint import Checkpoint
from siggpde.gp.kernel import lengthscales
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Poisson, RobustMax, Softmax, StudentT
from siggpde.io import read
from siggpde.io.predictions import prediction_table
from siggpde.numerics.signature_kernel import signature_kernel_diag
from siggpde.numerics.words import words
from siggpde.series import PathOptions, SeriesBatch

QUICK: dict[str, Any] = {"method": "paper", "n_features": 30, "max_iter": 30}
X, Y = rising(60, classes=3)
SIZES = X[:, 0, -1] / 4 + 1


def classifier(**settings: Any) -> SigGPClassifier:
    return SigGPClassifier(**{**QUICK, **settings})


def regressor(**settings: Any) -> SigGPRegressor:
    return SigGPRegressor(**{**QUICK, **settings})


def fitted(kind: str, **settings: Any) -> Any:
    """A classifier of two or three classes, or a regressor, of X."""
    if kind == "numbers":
        return regressor(**settings).fit(X, SIZES)
    return classifier(**settings).fit(X, Y if kind == "three classes" else Y > 0)


KINDS = ("three classes", "two classes", "numbers")
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_the_model_is_the_paper_s(kind: str):
    mine = fitted(kind)
    (member,) = mine.committee_.members
    model, history = member.model, member.history
    assert member.transform.options == PathOptions(time=True, base_point=False, append="none", clock="points")
    assert model.kernel.words is None and not model.kernel.normalized and model.kernel.static == "linear"
    assert model.features.words == words(2, 30) and model.features.basis is None
    assert model.variational.covariance == "full"
    expected = {"three classes": RobustMax, "two classes": Bernoulli, "numbers": Gaussian}[kind]
    assert type(model.likelihood) is expected and getattr(model.likelihood, "link", "probit") == "probit"
    assert history.schedule == "PaperSchedule" and history.steps == dict.fromkeys(("q", "hyperparameters", "all"), 30)
    assert member.score == min(record.nlpp for record in history.of("hyperparameters"))
    assert len(set(model.kernel.theta.tolist())) == 2, "each channel has learned its own scale"
    assert mine.n_iter_ == 90


def test_it_learns():
    assert classifier(max_iter=250).fit(X, Y).score(X, Y) > 0.8
    assert classifier(max_iter=250).fit(X, Y > 0).score(X, Y > 0) > 0.85
    assert regressor(max_iter=250).fit(X, SIZES).score(X, SIZES) > 0.7


def test_defaults_are_the_paper_s(monkeypatch: pytest.MonkeyPatch):
    seen: dict[str, Any] = {}

    def stop(model: Any, _: Any, schedule: Any, **settings: Any) -> None:
        seen.update(words=model.features.size, schedule=schedule, validation=settings.get("validation", 0.2))
        raise KeyboardInterrupt

    monkeypatch.setattr("siggpde.estimators.paper_method.fit", stop)
    with pytest.raises(KeyboardInterrupt):
        SigGPClassifier(method="paper").fit(X, Y)
    assert seen == {"words": 500, "schedule": siggpde.PaperSchedule(), "validation": 0.2}
    assert (seen["schedule"].iterations, seen["schedule"].batch, seen["schedule"].patience) == (5000, 50, None)


_NAMES = ("linalg", "cholesky", "inverse", "eigh", "svd", "geqrf", "ormqr", "solve", "lu_unpack", "lu_with_info")
_PRODUCTS = ("linalg_vector_norm",)  # a sum of squares


class Factorisations(TorchDispatchMode):
    """Within, `names` collects the names of the operations that invert, factorise or solve, of torch and numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self._patch = pytest.MonkeyPatch()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::")
        if any(part in name for part in _NAMES) and not name.startswith(_PRODUCTS):
            self.names.append(name)
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        for name in ("inv", "pinv", "solve", "cholesky", "qr", "svd", "eigh", "eig", "eigvals", "lstsq"):
            self._patch.setattr(np.linalg, name, self._counted(name, getattr(np.linalg, name)))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patch.undo()

    def _counted(self, name: str, real: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.names.append(f"numpy.{name}")
            return real(*args, **kwargs)

        return counted


@pytest.mark.parametrize(("count", "series"), [(30, 60), (90, 60)], ids=["fewer words than series", "more words"])
@kinds
def test_the_pde_is_solved_and_nothing_is_factorised(
    kind: str, count: int, series: int, monkeypatch: pytest.MonkeyPatch
):
    calls = {"diagonal": 0, "gradient": 0}
    diagonal, with_scales = kernel_module.signature_kernel_diag, kernel_module.signature_kernel_diag_scales

    def counted(name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return real(*args, **kwargs)

        return call

    fitted(kind, max_iter=1)  # nodes of quadratures, from the eigenvalues of a fixed matrix, are computed once
    monkeypatch.setattr(kernel_module, "signature_kernel_diag", counted("diagonal", diagonal))
    monkeypatch.setattr(kernel_module, "signature_kernel_diag_scales", counted("gradient", with_scales))
    with Factorisations() as operations:
        mine = fitted(kind, n_features=count)
        trained = dict(calls)
        mine.predict(X[:series])
        mine.log_likelihood(X, SIZES if kind == "numbers" else Y if kind == "three classes" else Y > 0)
    assert operations.names == []
    assert trained["gradient"] == 30, "one pass with the gradient in theta for every step of the second phase"
    assert trained["diagonal"] > 0 and calls["diagonal"] > trained["diagonal"], "for training, and for predictions"


def test_factorisations_are_noticed():
    """The test above can fail: the closed form of the other method factorises."""
    with Factorisations() as operations:
        SigGPClassifier(n_features=20, members=1, transforms={}).fit(X, Y)
    assert any("cholesky" in name or "eigh" in name for name in operations.names)
    with Factorisations() as operations:
        torch.linalg.inv(torch.eye(3))
        torch.cholesky_inverse(torch.eye(3))
        np.linalg.solve(np.eye(2), np.ones(2))
    assert len(operations.names) >= 3


@pytest.mark.parametrize("kind", [RobustMax, Softmax, Bernoulli, Gaussian, StudentT, Poisson])
def test_other_likelihoods(kind: type, tmp_path: Path):
    numbers, name = kind in (Gaussian, StudentT, Poisson), "student_t" if kind is StudentT else kind.__name__.lower()
    if numbers:
        mine: Any = regressor(likelihood=name, max_iter=3).fit(X, np.abs(SIZES).round())
    else:
        mine = classifier(likelihood=name, max_iter=3, class_weight="balanced").fit(X, Y > 0)
    model = mine.committee_.members[0].model
    assert type(model.likelihood) is kind and (numbers or model.likelihood.class_weight is not None)
    assert np.isfinite(outputs(mine, X)).all() and (numbers or np.allclose(outputs(mine, X).sum(axis=1), 1))
    again = reloaded(mine, tmp_path / "model")
    assert again.method == "paper" and np.array_equal(outputs(again, X), outputs(mine, X))
    card = (tmp_path / "model" / "README.md").read_text()
    assert "paper (SigGPDE as published" in card and "NLPP on validation series" in card
    assert f"| Likelihood | {kind.__name__} |" in card


@kinds
def test_explanations_and_more_series(kind: str):
    mine = fitted(kind, max_iter=5)
    actual = mine.importance(X, top=4)
    assert len(actual.words) == 4 and [channel.name for channel in actual.channels] == [mine.channel_names_[0]]
    assert len(mine.explain(X[:2], background=X)) == 2
    before = outputs(mine, X)
    targets = {"three classes": Y, "two classes": Y > 0, "numbers": SIZES}[kind]
    mine.partial_fit(X[:20], targets[:20])
    assert mine.n_series_ == 80 and not np.array_equal(outputs(mine, X), before)
    assert mine.score(X, targets) > 0.5


@kinds
def test_a_stream_is_predicted_as_a_whole(kind: str, tmp_path: Path):
    mine = fitted(kind, max_iter=5)
    np.save(tmp_path / "new.npy", np.tile(X, (20, 1, 1)))
    assert siggpde.predict_stream(mine, tmp_path / "new.npy", tmp_path / "new.parquet", block=1024) == 1200
    whole = prediction_table(mine, read(tmp_path / "new.npy"))
    assert pl.read_parquet(tmp_path / "new.parquet").equals(whole)


@kinds
@pytest.mark.parametrize("call", [1, 2, 3])
def test_going_on_after_an_interruption(kind: str, call: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Interrupted at the start of each phase; the checkpoint of another fit that was there is not gone on from."""
    (tmp_path / "member-1.pt").write_bytes(b"of another fit")
    whole = fitted(kind, max_iter=6)
    real, calls = Checkpoint.save, []

    def cut(*arguments: Any) -> None:
        real(*arguments)
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", cut)
        with pytest.raises(KeyboardInterrupt):
            fitted(kind, max_iter=6, checkpoint=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["member-1.pt"]
    again = fitted(kind, max_iter=6, checkpoint=tmp_path, resume=True)
    assert np.array_equal(outputs(again, X), outputs(whole, X))
    assert_refused("other series, targets or settings", fitted, kind, max_iter=7, checkpoint=tmp_path, resume=True)


def test_a_cache_a_time_limit_and_float32(tmp_path: Path):
    cached = [fitted("three classes", max_iter=3, cache_dir=tmp_path).predict_proba(X) for _ in range(2)]
    assert any(tmp_path.iterdir()) and np.array_equal(*cached)
    assert np.allclose(cached[0], fitted("three classes", max_iter=3).predict_proba(X), atol=1e-9)
    short = fitted("three classes", max_iter=10**6, time_limit=0.3)
    assert set(short.committee_.members[0].history.stopped.values()) == {"time limit"}
    assert short.committee_.members[0].score is not None
    half = fitted("three classes", max_iter=3, dtype="float32")
    assert half.committee_.members[0].model.dtype == torch.float32
    assert np.allclose(half.predict_proba(X), cached[0], atol=1e-3)


def test_settings_of_training_reach_the_schedule(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []
    real = paper_method.fit
    monkeypatch.setattr(
        paper_method, "fit", lambda *parts, **given: (seen.append((parts, given)), real(*parts, **given))[1]
    )
    rows = list(range(40)), list(range(40, 60))
    chosen: Any = {"batch_size": 7, "learning_rate": 0.01, "evaluate_every": 5, "validation": rows, "max_iter": 10}
    mine: Any = clone(cast(Any, classifier(**chosen, theta=[0.5, 0.25])))
    mine.fit(X, Y)
    ((_, _, schedule), given) = seen[0]
    assert schedule == siggpde.PaperSchedule(10, 7, 0.01, 5) and given["validation"] == rows
    start, *_ = mine.committee_.history.records
    np.testing.assert_allclose(start.theta, [0.5, 0.25])
    assert [record.iteration for record in mine.committee_.history.of("q")] == [4, 9]
    mine = classifier(validation=0.4, max_iter=1, transforms={"lead_lag": True}).fit(X, Y, groups=np.arange(60) // 3)
    (member,) = mine.committee_.members
    assert member.transform.options == PathOptions(lead_lag=True) and member.model.kernel.channels == 3
    train, valid = seen[1][1]["validation"]
    assert len(valid) == 24 and {row // 3 for row in train}.isdisjoint(row // 3 for row in valid)


def test_gaps_unequal_lengths_and_long_rough_series():
    ragged = [series[:, : 6 + number % 5] for number, series in enumerate(X)]
    ragged[3] = ragged[3].copy()
    ragged[3][0, 2] = np.nan
    mine = classifier(max_iter=3, mask=True).fit(ragged, Y)
    assert np.isfinite(mine.predict_proba(ragged)).all()
    noise = np.random.default_rng(0).normal(size=(40, 2, 300))
    noise[::2] *= 8
    mine = classifier(max_iter=3, n_features=20).fit(noise, np.arange(40) % 2)
    assert np.isfinite(mine.predict_proba(noise)).all()


@pytest.mark.parametrize("length", [8, 300])
def test_scales_start_where_the_kernel_is_in_range(length: int, caplog: pytest.LogCaptureFixture):
    """Walks of 8 points are in range; 300 points of noise are a long path, though its spread is the same."""
    noise = np.random.default_rng(0).normal(size=(20, 3, length))
    rough = torch.from_numpy(random_walks(20, 3, length) if length == 8 else noise).mT.contiguous()
    paths = SeriesBatch((rough - rough.mean(dim=(0, 1))) / rough.std(dim=(0, 1)))
    with caplog.at_level("WARNING"):
        theta = starting_scales(paths, Shard(Ranks(), 20), 0)
    usual = 1 / lengthscales(paths.values, None, torch.Generator().manual_seed(0))
    largest = float(signature_kernel_diag(paths.values * theta, log=True).max())
    assert largest < 10.1 and (length == 8 or largest > 4)
    assert float((theta / usual).std()) < 1e-12 and torch.equal(theta, usual) == (length == 8)
    said = f"training starts from {float(theta[0] / usual[0]):.3g} times these scales"
    assert (said in caplog.text) == (length > 8) == ("WARNING" in caplog.text)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"members": 2}, "method='paper' trains one model, got members=2; leave members at 'auto', or .*'views'"),
        ({"members": "many"}, "method='paper' trains one model, got members='many'"),
        ({"members": True}, "method='paper' trains one model"),
        ({"likelihood": "least_squares"}, "closed form, for method='views'; method='paper' takes 'auto', 'robustmax'"),
        ({"batch_size": 0}, "batch_size must be 'auto' or an integer of at least 1, got 0"),
        ({"learning_rate": -1}, "learning_rate must be 'auto' or a positive number, got -1"),
        ({"evaluate_every": "often"}, "evaluate_every must be 'auto' or an integer of at least 1, got 'often'"),
        ({"validation": 1.0}, "a share of the series from 0 up to 1, or a pair of lists of row numbers"),
        ({"validation": ([0, 1], [1, 2])}, "two disjoint lists of row numbers below 60"),
        ({"theta": 0.0}, "theta must be 'auto', a positive number or one for each channel of a path, got 0.0"),
        ({"theta": [1.0] * 3}, "theta must be a positive number or 2 of them"),
        ({"method": "views", "batch_size": 20}, "batch_size=20 is for method='paper', .*: leave batch_size at 'auto'"),
        ({"method": "views", "theta": 1.0}, "theta=1.0 is for method='paper'"),
        ({"transforms": {"clock": "noon"}}, "clock must be 'span' or 'points', got 'noon'"),
        ({"transforms": {"scale": "all"}}, "scale must be 'set' or 'series', got 'all'"),
    ],
    ids=str,
)
def test_settings_it_cannot_have(settings: dict[str, Any], match: str):
    assert_refused(match, classifier(**settings).fit, X, Y)
    assert classifier(members=1, max_iter=1).fit(X, Y).method == "paper"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")  # one of the 3498 is unlike all
def test_pendigits():
    data = load_pendigits()
    mine = SigGPClassifier(method="paper", max_iter=500).fit(data.X_train[:1000], data.y_train[:1000])
    assert mine.score(data.X_test, data.y_test) > 0.92
    assert -mine.log_likelihood(data.X_test, data.y_test).mean() < 0.25
