"""The base of the transformers, on the smallest one, and the conventions of scikit-learn and aeon."""

import pickle
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from helpers.conformance import assert_aeon_finds_nothing_wrong, failed_checks, needs_aeon
from helpers.refusals import assert_refused
from helpers.small_estimators import random_walks
from siggpde import SignatureTransformer, WindowSignatureTransformer
from siggpde.numerics.core import usual_threads
from siggpde.series import SeriesBatch
from siggpde.transformers.base import TAGS, SeriesTransformer, TransformerBase


class Means(SeriesTransformer, TransformerBase):
    _tags: ClassVar[dict[str, Any]] = TAGS

    def __init__(self, *, power: int = 1, channel_names: Any = None, dtype: str = "auto", n_jobs: int | None = 1):
        self.power = power
        self.channel_names = channel_names
        self.dtype = dtype
        self.n_jobs = n_jobs
        super().__init__()

    def _learn(self, batch: SeriesBatch) -> dict[str, Any]:
        if self.power < 1:
            raise ValueError(f"power must be at least 1, got {self.power}")
        return {"threads_": (usual_threads(), torch.get_num_threads()), "longest_": batch.values.shape[1]}

    def _features(self, batch: SeriesBatch, dtype: torch.dtype) -> Tensor:
        points = torch.where(batch.inside()[:, :, None], batch.values**self.power, 0.0)
        return (points.sum(1) / batch.counts()[:, None]).to(dtype)

    def _feature_names(self, channels: tuple[str, ...]) -> list[str]:
        return [f"mean of {name}" for name in channels]


def test_series_in_every_layout_and_type():
    X = random_walks(5, 2, 7)
    table = Means().fit_transform(X)
    np.testing.assert_allclose(table, X.mean(axis=2))
    ragged = [series[:, : 3 + i] for i, series in enumerate(X)]
    fitted = Means().fit(ragged)
    means = np.stack([series.mean(axis=1) for series in ragged])
    np.testing.assert_allclose(fitted.transform(ragged), means)
    for i, series in enumerate(ragged):
        np.testing.assert_array_equal(fitted.transform([series])[0], fitted.transform(ragged)[i])
    gap = X[:1].copy()
    gap[0, 0, 1] = np.nan
    gap[0, 0, 0], gap[0, 0, 2] = 1.0, 3.0
    filled = np.where(np.isnan(gap), 2.0, gap)
    np.testing.assert_allclose(fitted.transform(gap), filled.mean(axis=2))
    np.testing.assert_allclose(Means().fit_transform(X[:, 0]), X[:, :1].mean(axis=2))
    X = random_walks(4, 2, 6)
    assert Means().fit_transform(X).dtype == np.float64
    assert Means().fit_transform(X.astype(np.float32)).dtype == np.float32
    assert Means().fit_transform(list(X.astype(np.float32))).dtype == np.float32
    assert Means(dtype="float32").fit_transform(X).dtype == np.float32
    assert Means(dtype="float64").fit_transform(X.astype(np.float32)).dtype == np.float64
    assert Means().fit_transform(torch.from_numpy(X).float()).dtype == np.float32
    assert Means().fit_transform([[1, 2, 3], [4, 5]]).dtype == np.float64


def test_names_and_tables_of_pandas():
    X = random_walks(4, 2, 6)
    fitted = Means(channel_names=["level", "flow"]).fit(X)
    assert list(fitted.get_feature_names_out()) == ["mean of level", "mean of flow"]
    assert list(fitted.get_feature_names_out(["a", "b"])) == ["mean of a", "mean of b"]
    assert_refused("length equal to the number of channels, 2, got 3", fitted.get_feature_names_out, ["a", "b", "c"])
    pandas = pytest.importorskip("pandas")
    fitted.set_output(transform="pandas")
    for given in (X, list(X)):
        for table in (fitted.transform(given), fitted.fit_transform(given)):
            assert isinstance(table, pandas.DataFrame)
            assert list(table.columns) == ["mean of level", "mean of flow"] and list(table.index) == [0, 1, 2, 3]


def test_fitted_or_not_and_a_fit_that_fails():
    X, fresh = random_walks(4, 2, 6), Means()
    for call in (lambda: fresh.transform(X), fresh.get_feature_names_out):
        assert_refused("has not been fitted yet; call fit first", call, error=NotFittedError)
    assert fresh.fit(X) is fresh and fresh.n_channels_ == 2
    copied: Any = clone(fresh)
    with pytest.raises(NotFittedError):
        copied.transform(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fresh)).transform(X), fresh.transform(X))
    assert make_pipeline(Means(), StandardScaler()).fit_transform(X).shape == (4, 2)
    X = random_walks(4, 2, 6)
    fitted = Means().fit(X)
    before = fitted.transform(X)
    assert_refused("power must be at least 1", fitted.set_params(power=0).fit, random_walks(4, 3, 9))
    assert fitted.n_channels_ == 2
    np.testing.assert_array_equal(fitted.set_params(power=1).transform(X), before)


def test_errors_name_the_setting_and_threads_are_put_back():
    X = random_walks(4, 2, 6)
    assert_refused("dtype must be 'auto', 'float32' or 'float64', got 'half'", Means(dtype="half").fit, X)
    assert_refused("channel_names has 1 names, but the series have 2", Means(channel_names=["a"]).fit, X)
    assert_refused("n_jobs must be None", Means(n_jobs=0).fit, X)
    assert_refused("3 channels, but those of fit had 2", Means().fit(X).transform, random_walks(4, 3, 6))
    before = torch.get_num_threads()
    assert Means(n_jobs=2).fit(random_walks(4, 2, 6)).threads_ == (2, 1)  # pyright: ignore[reportAttributeAccessIssue]
    assert torch.get_num_threads() == before


# scikit-learn takes a 2-D X for a table whose columns have a meaning each, and wants an error where transform gets
# another number of them. Here they are time points, and series may have any length.
EXPECTED = {"check_n_features_in_after_fitting", "check_transformer_general"}


@needs_aeon
@pytest.mark.parametrize("kind", [Means, SignatureTransformer, WindowSignatureTransformer])
@pytest.mark.filterwarnings("ignore")
def test_aeon_finds_nothing_wrong(kind: Any):
    assert_aeon_finds_nothing_wrong(kind)


@needs_aeon
def test_with_aeon_transformers_are_those_of_aeon():
    from aeon.transformations.collection import BaseCollectionTransformer  # noqa: PLC0415

    transformer: Any = SignatureTransformer()
    assert isinstance(transformer, BaseCollectionTransformer)
    assert transformer.get_tag("capability:unequal_length") and transformer.get_tag("output_data_type") == "Tabular"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SignatureTransformer", "WindowSignatureTransformer"])
def test_scikit_learn_finds_nothing_wrong_but_lengths(name: str):
    failed = failed_checks(name, at_least=30)
    assert set(failed) == EXPECTED
    assert all("number of features" in message.replace("\n", " ") for message in failed.values())


def test_parameters_and_x_are_kept_as_they_are():
    mine = SignatureTransformer(depth=2, words=None, channel_names=["a", "b"], window="dyadic", window_depth=1)
    copied: Any = clone(mine)
    parameters = mine.get_params()
    assert SignatureTransformer(**parameters).get_params() == parameters == copied.get_params()
    wrong: dict[str, Any] = {"depth": -1, "window": object(), "dtype": 3}
    stored = SignatureTransformer(**wrong)
    assert all(getattr(stored, name) is value for name, value in wrong.items())
    X = random_walks(5, 2, 9)
    X[1, 0, 3] = np.nan
    before, mine = X.copy(), SignatureTransformer(words=[(0,), (1, 2)])
    parameters = dict(mine.get_params())
    mine.fit(X).transform(X)
    np.testing.assert_array_equal(X, before)
    assert mine.get_params() == parameters
