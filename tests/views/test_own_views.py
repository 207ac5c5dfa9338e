"""Transformers of the user's own as views."""

from typing import Any

import numpy as np
import pytest
import torch

from helpers.refusals import assert_refused
from helpers.view_data import ragged, random_walks, standardised
from siggpde.series import SeriesBatch
from siggpde.views import TransformerView
from siggpde.views.transformers import TransformerBlock, as_arrays


class Ends:
    """First, last and a constant of every channel; remembers what it was given."""

    fitted: Any = None

    def fit(self, X: Any) -> "Ends":
        self.fitted = X
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.stack([np.concatenate([x[:, 0], x[:, -1], [3.0]]) for x in X])


class Wrong(Ends):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def transform(self, X: Any) -> Any:
        return self.answer


class Constant(Ends):
    def transform(self, X: Any) -> np.ndarray:
        return np.ones((len(X), 2))


BATCH = standardised(SeriesBatch(random_walks(8, 10, 2)))


def test_features_are_standardised_and_a_kernel_and_a_block_is_its_state():
    transformer = Ends()
    block, landmark_rows = TransformerView("ends", transformer).fit(BATCH)
    assert transformer.fitted.shape == (8, 2, 10) and block.kind == "features"
    raw = torch.from_numpy(transformer.transform(as_arrays(BATCH)))[:, :4]
    scaled = (raw - raw.mean(0)) / raw.std(0)
    gram = scaled @ scaled.T
    torch.testing.assert_close(landmark_rows["ends"].gram, gram / gram.diagonal().mean())
    torch.testing.assert_close(block.rows(BATCH)["ends"].gram, landmark_rows["ends"].gram)
    assert block.names(["a", "b"]) == [["ends 0", "ends 1", "ends 2", "ends 3"]]
    block, _ = TransformerView("ends", Ends()).fit(BATCH)
    again = TransformerBlock.from_state(block.state(), BATCH, block.transformer)
    again.centring = block.centring
    assert torch.equal(again.rows(BATCH)["ends"].gram, block.rows(BATCH)["ends"].gram)


def test_unequal_lengths_are_a_list_and_constant_features_no_kernel():
    batch = standardised(ragged())
    transformer = Ends()
    block, landmark_rows = TransformerView("ends", transformer).fit(batch)
    assert [x.shape for x in transformer.fitted] == [(2, count) for count in batch.counts().tolist()]
    assert bool(torch.isfinite(landmark_rows["ends"].gram).all())
    one = SeriesBatch(batch.values[6:7, :5].clone())
    torch.testing.assert_close(block.rows(one)["ends"].gram[0], landmark_rows["ends"].gram[6])
    block, landmark_rows = TransformerView("mine", Constant()).fit(BATCH)
    assert block.centring["mine"].scale == 0 and not bool(landmark_rows["mine"].gram.any())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros((7, 3)), r"shape \(7, 3\) for 8 series"),
        (np.zeros(8), r"shape \(8,\)"),
        (np.full((8, 2), np.nan), "not finite for series 0"),
        (np.where(np.arange(16).reshape(8, 2) == 7, np.inf, 0.0), "not finite for series 3"),
    ],
)
def test_answers_that_are_no_features_are_refused(answer: np.ndarray, message: str):
    assert_refused(f"view 'mine' gave .*{message}", TransformerView("mine", Wrong(answer)).fit, BATCH)
