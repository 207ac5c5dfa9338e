"""The paper's model of the weather: scalings, posterior mean by words, probit, weeks for validation, a checkpoint."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from helpers.weather_station import nlpp, windows
from siggpde.explain.terms import word_features
from siggpde.gp.likelihoods import Bernoulli
from siggpde.series import SeriesBatch
from siggpde_paper.experiments.weather_models import Scaling, climatology, fit_paper_model, split_blocks

SETTINGS = {
    "inducing": 30,
    "validation": 0.25,
    "schedule": {"iterations": 120, "batch": 40, "learning_rate": 0.02, "evaluate_every": 30},
}
X, WET, BLOCKS = windows(160, 0)


@pytest.fixture(scope="module", params=[True, False], ids=["by series", "by data set"])
def trained(request):
    return fit_paper_model(X, WET, BLOCKS, SETTINGS, each=request.param, seed=0)


def test_scaling_by_series_as_tslearn_has_it():
    x = np.concatenate([X[:5], np.full((1, 2, 12), 7.0)])  # the last is constant
    paths = Scaling.of(X, each=True)(x).numpy()
    assert paths.shape == (6, 12, 3)
    wanted = (x - x.mean(axis=2, keepdims=True))[:5] / x.std(axis=2, keepdims=True)[:5]
    np.testing.assert_allclose(paths[:5, :, 1:], wanted.swapaxes(1, 2), atol=1e-12)
    assert (paths[5, :, 1:] == 0).all()
    time = np.arange(12.0)
    np.testing.assert_allclose(paths[:, :, 0], np.tile((time - time.mean()) / time.std(), (6, 1)), atol=1e-12)


def test_scaling_by_the_training_windows():
    paths = Scaling.of(X, each=False)(X[:5] + 1.0).numpy()
    mean, spread = X.mean(axis=(0, 2)), X.std(axis=(0, 2))
    np.testing.assert_allclose(paths[:, :, 1:], (X[:5].swapaxes(1, 2) + 1 - mean) / spread, atol=1e-12)


def test_it_is_the_papers(trained):
    model = trained.model
    assert isinstance(model.likelihood, Bernoulli) and model.likelihood.link == "probit"
    assert model.kernel.words is None and not model.kernel.normalized
    assert len(model.features.words) == 30 and model.features.words[:3] == [(), (0,), (1,)]
    assert trained.settings()["iterations"] == {"q": 120, "hyperparameters": 120, "all": 120}
    assert trained.cpu_seconds > 0


def test_posterior_mean_is_the_sum_over_words(trained):
    mean, spread = trained.latent(X[:10])
    terms = word_features(trained.model, SeriesBatch(trained.scaling(X[:10]))).detach()
    np.testing.assert_allclose(mean, (terms @ trained.model.variational.mean[0].detach()).numpy(), rtol=1e-7)
    np.testing.assert_allclose(
        trained.log_odds(X[:10]),
        norm.logcdf(mean / np.sqrt(1 + spread**2)) - norm.logcdf(-mean / np.sqrt(1 + spread**2)),
        rtol=1e-7,
    )


def test_it_learns(trained):
    new, truth, _ = windows(300, 1)
    assert nlpp(trained.log_odds(new), truth) < nlpp(climatology(WET).log_odds(new), truth) - 0.03


def test_no_scaling_sees_levels_and_one_sees_sizes():
    trained = [fit_paper_model(X, WET, BLOCKS, SETTINGS, each=each, seed=0) for each in (True, False)]
    now, higher, larger = ([model.log_odds(x) for model in trained] for x in (X[:20], X[:20] + 2, 3 * X[:20]))
    for before, after in zip(now, higher, strict=True):
        np.testing.assert_allclose(before, after, atol=1e-9)
    np.testing.assert_allclose(now[0], larger[0], atol=1e-9)
    assert np.abs(now[1] - larger[1]).max() > 0.1


def test_words_by_both_readings(trained):
    found = trained.features(X, WET, ["p", "rh"], 5)
    weights = trained.model.variational.mean[0].detach().abs()
    spread = word_features(trained.model, SeriesBatch(trained.scaling(X))).detach().std(dim=0, correction=0)
    names = ["–".join(("time", "p", "rh")[letter] for letter in word) for word in trained.model.features.words]
    for reading, measure in (("by_size", weights), ("by_spread", weights * spread)):
        order = [place for place in measure.argsort(descending=True).tolist() if names[place]][:5]
        assert [each["name"] for each in found[reading]] == [names[place] for place in order]
        whole = float(measure[1:].sum())
        np.testing.assert_allclose([each["share"] for each in found[reading]], measure[order] / whole, rtol=1e-7)
    constant = [
        each for each in trained.features(X, WET, ["p", "rh"], 29)["by_size"] if set(each["letters"]) == {"time"}
    ]
    assert {each["name"] for each in constant} == {"time", "time–time", "time–time–time"}
    assert all(each["before_rain"] is None for each in constant)


def test_validation_by_whole_blocks():
    train, valid = split_blocks(BLOCKS, 0.25, seed=1)
    assert sorted(train + valid) == list(range(160))
    assert len(set(BLOCKS[valid])) == 2 and not set(BLOCKS[valid]) & set(BLOCKS[train])
    assert split_blocks(BLOCKS, 0.25, seed=1) == (train, valid) != split_blocks(BLOCKS, 0.25, seed=2)
    with pytest.raises(ValueError, match="two or more of them"):
        split_blocks(np.zeros(9), 0.25, seed=0)


def test_a_checkpoint_keeps_the_fit(tmp_path, monkeypatch):
    file = tmp_path / "state.pt"
    first = fit_paper_model(X, WET, BLOCKS, SETTINGS, each=True, seed=0, checkpoint=file)
    monkeypatch.setattr(torch.autograd, "backward", lambda *_: pytest.fail("trained again"))
    again = fit_paper_model(X, WET, BLOCKS, SETTINGS, each=True, seed=0, checkpoint=file)
    np.testing.assert_array_equal(first.log_odds(X), again.log_odds(X))
    assert again.cpu_seconds == first.cpu_seconds
