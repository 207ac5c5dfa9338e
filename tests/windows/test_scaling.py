"""WindowScaler: features at mean 0 and spread 1, block by block."""

import torch

from helpers.random_paths import make
from siggpde.series import SeriesBatch
from siggpde.windows import Block, WindowFeatures, WindowScaler, WindowSettings


def test_the_kernel_of_a_block_has_unit_diagonal():
    batch = SeriesBatch(make("brownian", 1, 60, 40, 2, 3.0))
    features = WindowFeatures.fit(batch, WindowSettings(lifts=("x", "dx")))
    scaler, training = WindowScaler.fit_transform(features.blocks(batch))
    assert {block.name for block in training} == {"x1", "x3", "dx1", "dx3"}
    for block in training:
        assert abs(float(block.values.square().sum(1).mean()) - 1) < 0.05  # n / (n - 1), and what is cut off
        assert block.values.abs().max() <= 8 / block.values.shape[1] ** 0.5 + 1e-6
    for mine, theirs in zip(training, scaler(features.blocks(batch)), strict=True):
        assert torch.equal(mine.values, theirs.values) and mine[:2] == theirs[:2]
    again = WindowScaler.from_state(scaler.state())
    for mine, theirs in zip(training, again(features.blocks(batch)), strict=True):
        assert torch.equal(mine.values, theirs.values)


def test_features_that_do_not_vary_are_left_out_and_outliers_cut_off():
    values = torch.tensor([[0.0, 3.0, 1.0], [2.0, 3.0, 1.0], [4.0, 3.0, 1.0]])
    scaler, (block,) = WindowScaler.fit_transform([Block("x1", 0, values)])
    assert torch.equal(block.values, torch.tensor([[-1.0], [0.0], [1.0]]))
    (new,) = scaler([Block("x1", 0, torch.tensor([[1e6, 7.0, 7.0], [-1e6, 0.0, 0.0]]))])
    assert torch.equal(new.values, torch.tensor([[8.0], [-8.0]]))
    _, (nothing,) = WindowScaler.fit_transform([Block("x1", 0, values[:1])])
    assert nothing.values.shape == (1, 0)
