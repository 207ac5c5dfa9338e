"""Transformers of the user's own as views: fitted with the model, never saved with it, asked for when it is loaded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import siggpde
from helpers.conformance import needs_aeon
from helpers.small_estimators import rising
from siggpde import SigGPClassifier
from siggpde.persistence import ModelFileError

X, Y = rising(30, noise=3.0)


class Moments(BaseEstimator):
    """Means of random powers of the series."""

    def __init__(self, count: int = 4, seed: int = 0) -> None:
        self.count, self.seed = count, seed

    def fit(self, X: Any, y: Any = None) -> "Moments":
        self.powers_ = np.random.default_rng(self.seed).uniform(0.5, 2, self.count)
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.stack([[(np.abs(one) ** power * np.sign(one)).mean() for power in self.powers_] for one in X])


@pytest.fixture(scope="module")
def fitted() -> SigGPClassifier:
    return SigGPClassifier(views=["linear", ("moments", Moments())]).fit(X, Y)


@pytest.fixture
def saved(fitted: SigGPClassifier, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "m")
    return tmp_path / "m"


def moments_of(fitted: Any) -> Moments:
    return fitted.views[-1][1]


def test_it_is_a_view_among_others(fitted: Any):
    kernels = {name for member in fitted.committee_.members for name, _ in member.recipe.weights}
    assert "moments" in kernels and fitted.predict(X).shape == (30,)
    again: Any = clone(fitted)
    again.fit(X[:20], Y[:20])


def test_the_transformer_is_asked_for(fitted: Any, saved: Path):
    assert "Moments" not in (saved / "model.json").read_text()
    facts = json.loads((saved / "model.json").read_text())["facts"]
    assert facts["parameters"]["views"] == ["linear", {"transformer": "moments"}]
    with pytest.raises(ModelFileError, match=r"the view 'moments' .* not saved .* transformers=\{'moments': transfor"):
        siggpde.load(saved)
    loaded: Any = siggpde.load(saved, transformers={"moments": moments_of(fitted)})
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.views == fitted.views


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Moments(5).fit(X), "gave 5 features, but that of the fit 4"),
        (Moments(seed=1).fit(X), "is not the one that the model was fitted with: of the features .* 4 of 4 differ"),
        (object(), "'moments' has no method transform"),
    ],
)
def test_another_transformer_is_refused(wrong: Any, said: str, saved: Path):
    with pytest.raises(ModelFileError, match=said):
        siggpde.load(saved, transformers={"moments": wrong})


@pytest.mark.parametrize("ragged", [False, True])
def test_without_training_series(ragged: bool, tmp_path: Path):
    series = [one[:, : 8 + i % 5] for i, one in enumerate(X)] if ragged else X
    fitted = SigGPClassifier(views=[("moments", Moments())], keep_series=False).fit(series, Y)
    fitted.save(tmp_path / "m")
    loaded: Any = siggpde.load(tmp_path / "m", transformers={"moments": moments_of(fitted)})
    assert np.array_equal(loaded.predict_proba(series), fitted.predict_proba(series))


@pytest.mark.slow
@needs_aeon
def test_multirocket(tmp_path: Path):
    from aeon.transformations.collection.convolution_based import MultiRocket  # noqa: PLC0415 - not everyone has it

    series, labels = rising(40, noise=3.0)
    series = np.repeat(series, 4, axis=2)
    rocket = MultiRocket(n_kernels=84, random_state=0)
    fitted = SigGPClassifier(views=["linear", ("rocket", rocket)]).fit(series, labels)
    fitted.save(tmp_path / "m")
    loaded: Any = siggpde.load(tmp_path / "m", transformers={"rocket": rocket})
    assert np.array_equal(loaded.predict_proba(series), fitted.predict_proba(series))
    with pytest.raises(ModelFileError, match="is not the one that the model was fitted with"):
        siggpde.load(tmp_path / "m", transformers={"rocket": MultiRocket(n_kernels=84, random_state=1).fit(series)})
