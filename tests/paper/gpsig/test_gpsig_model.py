"""GPSig's start from data, and the model it gives."""

import pytest
import torch

from helpers.small_models import QUIET, labels, series, targets
from siggpde import fit
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, Gaussian, RobustMax
from siggpde.gp.model import SparseGP
from siggpde.training import PaperSchedule
from siggpde_paper.gpsig import InducingSequences, InducingTensors, TruncatedKernel, gpsig
from siggpde_paper.gpsig.models import chosen_series, lengthscales, starting_sequences, starting_tensors
from siggpde_paper.gpsig.tensor_levels import slot_index

KINDS = ("tensors", "sequences")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"method": "recursion"}, {"static": "rbf", "order": 1}])
def test_the_bound_is_finite_and_so_is_its_gradient(kind, settings):
    x = series(30, length=6)
    y = labels(x, 3)
    model = gpsig(x, y, RobustMax(3), kind=kind, count=7, level=3, seed=4, **settings)
    with torch.no_grad():
        model.variational.mean.normal_(generator=torch.Generator().manual_seed(0))
    bound = model.elbo(x, y)
    assert torch.isfinite(bound)
    parameters = [*model.kernel.parameters(), *model.features.parameters()]
    slopes = torch.autograd.grad(bound, parameters)
    for parameter, slope in zip(parameters, slopes, strict=True):
        direction = torch.randn(parameter.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter.add_(direction, alpha=step)
                values.append(model.elbo(x, y).item())
                parameter.sub_(direction, alpha=step)
        found = (values[0] - values[1]) / 2e-5
        assert found == pytest.approx((slope * direction).sum().item(), rel=1e-4, abs=1e-4)


def test_the_model_is_what_was_asked_for():
    x = [series(1, length=length, seed=length)[0] for length in (7, 3, 1, 9)]
    model = gpsig(x, [0, 1, 1, 0], Bernoulli(), count=6, level=3, order=2)
    assert isinstance(model, SparseGP) and isinstance(model.features, InducingTensors)
    assert (model.kernel.level, model.kernel.order, model.variational.latents) == (3, 2, 1)
    model = gpsig(x, targets(series(4)), Gaussian(0.1), kind="sequences", count=9)
    assert isinstance(model.features, InducingSequences) and model.features.values.shape == (9, 5, 2)
    again, other = (gpsig(x, targets(series(4)), Gaussian(0.1), kind="sequences", count=9, seed=s) for s in (0, 1))
    assert torch.equal(again.features.values, model.features.values)
    assert not torch.equal(other.features.values, model.features.values)


def test_lengthscales_are_at_least_one():
    x = series(50, length=20) * torch.tensor([10.0, 0.01])
    found = lengthscales(x, torch.full((50,), 20), torch.Generator().manual_seed(0))
    points = x.reshape(-1, 2)[:, 0]
    wanted = (2 * (points[:, None] - points).square().mean()).sqrt()
    assert found[1] == 1.0 and found[0].item() == pytest.approx(float(wanted))


def test_classes_have_quotas():
    y = torch.tensor([0] * 50 + [1] * 3 + [2] * 20)
    rows = chosen_series(y, 30, 3, torch.Generator().manual_seed(0))
    assert len(rows) == 30
    assert [int((y[rows[:23]] == label).sum()) for label in range(3)] == [10, 3, 10]
    assert len(set(rows[:23].tolist())) == 23
    assert len(chosen_series(y[:4], 30, 0, torch.Generator().manual_seed(0))) == 30


def test_tensors_are_steps_at_sorted_times(monkeypatch):
    monkeypatch.setattr("siggpde_paper.gpsig.models._NOISE", 0.0)
    time = torch.arange(8).double()[None, :, None].expand(200, -1, 1)
    values = starting_tensors(time, torch.full((200,), 6), 4, torch.Generator().manual_seed(0))
    for m in range(1, 5):
        pairs = torch.stack([values[:, slot_index(k, m, 4), :, 0] for k in range(1, m + 1)], dim=1)
        assert torch.equal(pairs[:, :, 1] - pairs[:, :, 0], torch.ones(200, m).double())
        assert (pairs[:, 1:, 0] > pairs[:, :-1, 0]).all(), "sorted, distinct"
        assert pairs[:, :, 0].min() == 0 and pairs[:, :, 0].max() == 4, "the last of 6 points is number 5"
    short = starting_tensors(time[:, :2], torch.full((200,), 2), 3, torch.Generator().manual_seed(0))
    last = [short[0, slot_index(k, 3, 3), :, 0].tolist() for k in (1, 2, 3)]
    assert last == [[0, 1], [1, 1], [1, 1]], "after its end a series stands still"


def test_sequences_are_windows(monkeypatch):
    monkeypatch.setattr("siggpde_paper.gpsig.models._NOISE", 0.0)
    time = torch.arange(9).double()[None, :, None].expand(200, -1, 1)
    values = starting_sequences(time, torch.full((200,), 7), 5, torch.Generator().manual_seed(0))[:, :, 0]
    assert (values.diff(dim=1) == 1).all()
    assert set(values[:, 0].tolist()) == {0.0, 1.0, 2.0}
    short = starting_sequences(time[:, :2], torch.full((200,), 2), 4, torch.Generator().manual_seed(0))
    assert short[0, :, 0].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("method", ["explicit", "recursion"])
@pytest.mark.parametrize("kind", KINDS)
def test_training_raises_the_bound(kind, method):
    x = series(40, length=5)
    y = labels(x, 2)
    model = gpsig(x, y, Bernoulli(), kind=kind, count=6, level=2, method=method)
    before, start = model.elbo(x, y).item(), model.features.values.detach().clone()
    fit(model, (x, y), PaperSchedule(iterations=40, batch=20, learning_rate=1e-2), **QUIET)
    assert model.elbo(x, y).item() > before + 0.5
    assert not torch.equal(model.features.values, start)
    assert model.predict(x).shape == (40, 2)


def test_bad_input():
    x = series(4)
    with pytest.raises(ValueError, match="kind must be 'tensors' or 'sequences', got 'words'"):
        gpsig(x, [0, 1, 0, 1], Bernoulli(), kind="words", count=3)
    with pytest.raises(ValueError, match="there are 4 series and 3 targets"):
        gpsig(x, [0, 1, 0], Bernoulli(), count=3)
    with pytest.raises(ValueError, match="count must be an integer, at least 1, got 0"):
        gpsig(x, [0, 1, 0, 1], Bernoulli(), count=0)
    with pytest.raises(ValueError, match="InducingTensors are for a TruncatedKernel, not for a SignatureKernel"):
        SparseGP(SignatureKernel(2), InducingTensors(2, 3), Bernoulli())
    with pytest.raises(ValueError, match="SignatureKernel, not of a TruncatedKernel"):
        SparseGP(TruncatedKernel(2), OrthogonalSignatureFeatures(2, 3), Bernoulli())
