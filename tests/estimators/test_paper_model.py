"""The paper's model behind the interface of committees: what it predicts is what its Gaussian process says."""

from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.small_committees import batch_of, ends, labels_of, trained_model
from helpers.small_models import QUIET, series, small_gp, targets
from siggpde.estimators import paper_method as module
from siggpde.estimators.paper_method import PaperModel
from siggpde.gp.likelihoods import Gaussian, StudentT
from siggpde.gp.model import SignatureGP
from siggpde.series import PathTransform, SeriesBatch
from siggpde.training import Exact, fit

BATCH = batch_of(30, 7)
NEW = batch_of(11, 7, seed=9, ragged=True)


@pytest.fixture(scope="module")
def classifier() -> PaperModel:
    return trained_model(BATCH, labels_of(BATCH, 3))


@pytest.fixture(scope="module")
def regressor() -> PaperModel:
    return trained_model(BATCH, ends(BATCH))


def predicted(model: PaperModel, batch: SeriesBatch) -> Any:
    paths = model.paths(batch)
    return model.model.predict(paths.values, lengths=paths.lengths)


def test_probabilities_are_those_of_the_model(classifier: PaperModel, regressor: PaperModel):
    actual = classifier.probabilities(NEW)
    torch.testing.assert_close(actual, predicted(classifier, NEW), atol=1e-12, rtol=0)
    assert torch.allclose(actual.sum(dim=1), torch.ones(11).double(), atol=1e-15)
    y = torch.arange(11) % 3
    assert torch.allclose(classifier.log_predictive(NEW, y), actual.gather(1, y[:, None])[:, 0].log(), atol=1e-8)
    none = BATCH[:0]
    assert classifier.probabilities(none).shape == (0, 3)
    assert [part.shape for part in regressor.mean_and_variance(none)] == [(0,), (0,)]
    assert classifier.log_predictive(none, torch.zeros(0).long()).shape == (0,)


def test_moments_and_quantiles_are_those_of_the_model(regressor: PaperModel):
    for actual, wanted in zip(regressor.mean_and_variance(NEW), predicted(regressor, NEW), strict=True):
        torch.testing.assert_close(actual, wanted)
    paths = regressor.paths(NEW)
    latent = regressor.model.predict_f(paths.values, lengths=paths.lengths)
    for level in (0.1, 0.5, 0.8):
        wanted = regressor.model.likelihood.quantile(*latent, level)
        assert torch.allclose(regressor.quantiles(NEW, [level])[:, 0], wanted, rtol=1e-9)
    for model in (regressor, PaperModel(regressor.transform, small_gp(StudentT(), 7, channels=3), {}, None)):
        with pytest.raises(ValueError, match="p must be between 0 and 1"):
            model.quantiles(NEW, [0.5, 1.0])


def test_borders_of_chunks_change_nothing(
    classifier: PaperModel, regressor: PaperModel, monkeypatch: pytest.MonkeyPatch
):
    def everything() -> list[Tensor]:
        ends = regressor.quantiles(NEW, [0.1, 0.9]), regressor.log_predictive(NEW, torch.arange(11.0).double())
        return [classifier.probabilities(NEW), *classifier.latents(NEW), *regressor.mean_and_variance(NEW), *ends]

    whole = everything()
    for size in (1, 4, 11):
        monkeypatch.setattr(module, "_CHUNK", size)
        for one, other in zip(everything(), whole, strict=True):
            assert one.shape == other.shape and torch.allclose(one, other, rtol=1e-12, atol=1e-12)


def test_time_stamps_reach_the_model():
    X = series(30, seed=3)
    times = torch.linspace(0, 1, 6).double().expand(30, 6) ** 2
    transform = PathTransform().fit(X, times=times)
    paths, _ = transform(X, times=times)
    model = small_gp(Gaussian(), 7, channels=3, theta=0.4)
    fit(model, (paths, targets(X)), Exact(), **QUIET)
    actual, _ = PaperModel(transform, model, {}, None).mean_and_variance(SeriesBatch(X, None, times))
    assert torch.allclose(actual, model.predict(paths)[0])


def test_sharpened_probabilities_sum_to_one_and_agree_with_the_density():
    """As saved models of early versions have them."""
    model, y = trained_model(BATCH, labels_of(BATCH, 3)), labels_of(BATCH, 3)
    plain, density = model.probabilities(BATCH), model.log_predictive(BATCH, y)
    state = model.state()
    tensors = {name.removeprefix("member0."): part for name, part in state["tensors"].items() if "member0" in name}
    again = PaperModel.from_state({**state, "sharpness": 1.7}, tensors)
    sharp = again.probabilities(BATCH)
    assert torch.allclose(sharp, plain**1.7 / (plain**1.7).sum(dim=1, keepdim=True), atol=1e-12)
    actual = again.log_predictive(BATCH, y)
    assert torch.allclose(actual, sharp.gather(1, y[:, None])[:, 0].log()) and not torch.allclose(actual, density)


def test_an_update_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    model = trained_model(BATCH, labels_of(BATCH, 3))
    before = model.probabilities(NEW)

    def fails(gp: SignatureGP, *_: Any, **__: Any) -> None:
        with torch.no_grad():
            gp.variational.mean.add_(1.0)
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(module, "update_posterior", fails)
        with pytest.raises(MemoryError):
            model.update(BATCH, labels_of(BATCH, 3))
    assert torch.equal(model.probabilities(NEW), before)
    model.update(BATCH, labels_of(BATCH, 3))
    assert not torch.equal(model.probabilities(NEW), before)
