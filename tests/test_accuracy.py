"""Whole fits on real data reach what the manual says, with room for other machines' rounding."""

import pytest
import torch

import siggpde
from siggpde._train_demo import tensors, train_demo
from siggpde.datasets import load_dataset


@pytest.mark.slow
def test_pendigits_is_better_than_the_paper_says():
    facts, model = train_demo()
    assert facts["accuracy"] > 0.98  # the paper: 0.9773
    assert facts["nlpp"] < 0.070  # the paper: 0.085
    assert model.features.size == 500
    assert len(facts["history"]["screening"]["tried"]) > 10


@pytest.mark.slow
def test_crop_has_two_thirds_right_with_few_directions():
    try:
        data = load_dataset("Crop")
    except FileNotFoundError as missing:
        pytest.skip(f"Crop is not here: {missing}")
    series, labels, test, truth = tensors(data)
    found = siggpde.screen(series, labels, max_series=1000)
    model = found.build(rank=200, dtype=torch.float32)
    paths, _ = found.transform(series)
    siggpde.fit(model, (paths, labels), siggpde.NaturalGradients(learn=False), screening=found)
    paths, _ = found.transform(test)
    right = model.predict(paths).argmax(dim=1) == truth
    assert right.double().mean() > 0.62
