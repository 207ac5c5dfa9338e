"""Training as the authors ran it: the penalty, TensorFlow's Nadam, the best state of phase 2, GPSig's start."""

import numpy as np
import pytest
import torch

from helpers.interruptions import Interruption, interrupt
from helpers.refusals import assert_refused
from helpers.small_models import QUIET, labels, series
from siggpde import fit
from siggpde.datasets import load_dataset
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli
from siggpde.gp.model import SignatureGP
from siggpde.gp.trainer import Trainer
from siggpde_paper.experiments.comparison import report, run
from siggpde_paper.experiments.methods import AuthorsNadam, AuthorsSchedule, load_series, split_sizes
from siggpde_paper.experiments.results import Results, load_config
from siggpde_paper.gpsig.models import chosen_series

X = series(80, length=6)
Y = labels(X, 2)


def model() -> SignatureGP:
    return SignatureGP(SignatureKernel(2, theta=0.5), OrthogonalSignatureFeatures(2, 15, "lexicographic"), Bernoulli())


def settings(**changes):
    return AuthorsSchedule(**({"iterations": 60, "batch": 20, "learning_rate": 0.02, "evaluate_every": 20} | changes))


def test_nadam_is_that_of_tensorflow():
    """The update of tf.contrib.opt.NadamOptimizer written out, with the penalty's gradient in the first parameter."""
    random = torch.Generator().manual_seed(0)
    start = torch.randn(5, dtype=torch.float64, generator=random)
    parameters = [start.clone(), start.clone()]
    optimizer, value = AuthorsNadam(parameters, 0.01, 0.3), [start.clone(), start.clone()]
    moments = [[torch.zeros(5).double(), torch.zeros(5).double()] for _ in value]
    for step in range(1, 20):
        gradients = [torch.randn(5, dtype=torch.float64, generator=random) for _ in value]
        optimizer.step(gradients)
        rate = 0.01 * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
        for index, gradient in enumerate(gradients):
            whole = gradient + 0.3 * value[0].sign() if index == 0 else gradient
            first, second = moments[index]
            first.mul_(0.9).add_(0.1 * whole)
            second.mul_(0.999).add_(0.001 * whole**2)
            value[index] = value[index] - rate * (0.1 * whole + 0.9 * first) / (second.sqrt() + 1e-8)
    for ours, theirs in zip(parameters, value, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_penalty_makes_means_small():
    sizes = {}
    for weight in (0.0, 3.0):
        penalised = model()
        fit(penalised, (X, Y), settings(iterations=300, l1=weight), **QUIET)
        sizes[weight] = penalised.variational.mean.detach().abs()
    assert float(sizes[3.0].sum()) < 0.7 * float(sizes[0.0].sum())
    assert int((sizes[3.0] < 0.02).sum()) > int((sizes[0.0] < 0.02).sum())


@pytest.mark.parametrize(("second", "kept_from"), [([0.95, 0.93, 0.92], 0), ([0.95, 0.89, 0.93], 40)])
def test_phase_two_begins_with_its_own_start_as_the_best(second, kept_from, monkeypatch: pytest.MonkeyPatch):
    """A state of phase 2 is kept where its NLPP is below all of phase 1, else the end of phase 1."""
    scores, scales = iter([1.0, 0.9, 0.91, *second]), {}
    monkeypatch.setattr(Trainer, "validate", lambda self: (next(scores), None))
    record = Trainer.record

    def watched(self, phase, **values):
        record(self, phase, **values)
        if phase != "all":
            scales[0 if phase == "q" else self.iteration + 1] = self.model.kernel.theta.tolist()

    monkeypatch.setattr(Trainer, "record", watched)
    trained = model()
    fit(trained, (X, Y), settings(), **QUIET)
    assert trained.kernel.theta.tolist() == scales[kept_from] and scales[20] != scales[0]


def test_a_resumed_fit_makes_the_same_steps(tmp_path, monkeypatch: pytest.MonkeyPatch):
    whole, parts, state = model(), model(), tmp_path / "state.pt"
    fit(whole, (X, Y), settings(), checkpoint=tmp_path / "whole.pt", checkpoint_every=0.0, **QUIET)
    interrupt(monkeypatch, "hyperparameters", 15)
    with pytest.raises(Interruption):
        fit(parts, (X, Y), settings(), checkpoint=state, checkpoint_every=0.0, **QUIET)
    monkeypatch.undo()
    parts = model()
    fit(parts, (X, Y), settings(), checkpoint=state, checkpoint_every=0.0, resume=True, **QUIET)
    for ours, theirs in zip(parts.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_quotas_in_proportion_and_none():
    y = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    rows = chosen_series(y, 50, 3, torch.Generator().manual_seed(0), "proportional")
    assert [int((y[rows] == label).sum()) for label in range(3)] == [30, 15, 5]
    drawn = chosen_series(y, 500, 3, torch.Generator().manual_seed(0), "none")
    assert len(drawn) == 500 and len(drawn.unique()) < 101, "with replacement"


def test_settings_of_the_authors_weather():
    ours, theirs = load_config("weather"), load_config("weather-authors")
    assert theirs["data"]["cumulated"] == ["rain"] and theirs["data"]["train"] == ours["data"]["train"]
    assert theirs["paper"]["schedule"] | {"iterations": 30_000, "l1": 1.0, "last": False} == theirs["paper"]["schedule"]
    assert not any(method.get("time", False) for method in theirs["methods"].values())


@pytest.mark.parametrize("name", ["pendigits", "whales", "crops"])
def test_settings_of_the_authors_differ_where_they_say(name: str):
    ours, theirs = load_config(name), load_config(f"{name}-authors")
    assert theirs["data"] == ours["data"] and theirs["schedule"]["l1"] == 1.0
    assert theirs["schedule"]["iterations"] == ours["schedule"]["iterations"]
    frozen = {method["kind"]: method.get("frozen_levels", False) for method in theirs["methods"].values()}
    assert frozen["gpsig"] and not frozen["siggpde"]


def test_the_official_split_is_known_by_its_counts(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A stand-in of the archive's file in the cache goes before a file of another split in the user's folder."""
    for folder, test in ((tmp_path / "mine", 3), (tmp_path / "cache" / "siggpde", 4)):
        folder.mkdir(parents=True)
        parts = {"X_train": np.zeros((6, 1, 5)), "X_test": np.zeros((test, 1, 5))}
        np.savez(folder / "Calls.npz", y_train=np.arange(6) % 2, y_test=np.arange(test) % 2, **parts)
    monkeypatch.setenv("SIGGPDE_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SIGGPDE_ARCHIVE", "http://127.0.0.1:9")  # nobody answers
    assert split_sizes(load_dataset("Calls")) == [6, 3]
    assert split_sizes(load_series({"data": "Calls", "official": [6, 4]})) == [6, 4]
    assert split_sizes(load_series({"data": "Calls", "official": [9, 9]})) == [6, 3]


@pytest.mark.parametrize("official", [True, False])
def test_whales_say_which_split_they_took(official: bool, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A small stand-in in the archive's format, whose counts are the official ones or not."""
    pytest.importorskip("matplotlib").use("Agg")
    sounds = np.random.default_rng(0).normal(size=(60, 1, 512))
    parts = {"X_train": sounds[:40], "X_test": sounds[40:], "y_train": np.arange(40) % 2, "y_test": np.arange(20) % 2}
    np.savez(tmp_path / "RightWhaleCalls.npz", **parts)
    monkeypatch.setenv("SIGGPDE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SIGGPDE_ARCHIVE", "http://127.0.0.1:9")  # nobody answers
    config = load_config("whales", quick=True) | {"inducing": 10, "official": [40, 20] if official else [50, 20]}
    config["methods"] = {"siggpde-paper": config["methods"]["siggpde-paper"]}
    config["schedule"] |= {"iterations": 4, "batch": 10, "evaluate_every": 2}
    results = Results(tmp_path / "results", config)
    run(config, results, 1)
    assert ("The archive's own split: 40 training and 20 test" in report(config, results)) == official
    assert ("Not the archive's own split (50 / 20)" in report(config, results)) != official
    np.savez(tmp_path / "RightWhaleCalls.npz", **(parts | {"X_train": sounds[:30], "y_train": np.arange(30) % 2}))
    assert_refused("results on another split of", run, config, results, 1)
