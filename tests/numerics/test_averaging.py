"""Long series averaged to a number of points: one by one, the short ones untouched, said once."""

import itertools
import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import make, modest
from helpers.refusals import assert_refused
from siggpde import average_points, signature_kernel, signature_kernel_diag
from siggpde.numerics.inputs import average_sides

LOGGER = "siggpde.numerics.inputs"
DTYPES = st.sampled_from([torch.float64, torch.float32])


def bin_means(series: torch.Tensor, bins: int) -> torch.Tensor:
    """(length, channels) to at most `bins` points, bin by bin."""
    length = len(series)
    if length <= bins:
        return series
    edges = [b * length // bins for b in range(bins + 1)]
    return torch.stack([series[begin:end].mean(dim=0) for begin, end in itertools.pairwise(edges)])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(1, 20), st.integers(0, 10**6), DTYPES)
@modest
def test_each_series_is_averaged_as_if_it_were_alone(lengths: list[int], most: int, seed: int, dtype: torch.dtype):
    series = [make("brownian", seed + i, 1, length, 3)[0].to(dtype) for i, length in enumerate(lengths)]
    values, counts = average_points(series, most)
    assert values.dtype == dtype and values.shape[1] == min(most, max(lengths))
    for i, one in enumerate(series):
        points = min(len(one), most)
        assert (values.shape[1] if counts is None else int(counts[i])) == points
        alone, no_counts = average_points(one[None], most)
        assert no_counts is None and torch.equal(values[i, :points], alone[0]), "bitwise the same without the others"
        assert torch.allclose(alone[0], bin_means(one, most), rtol=0, atol=4 * torch.finfo(dtype).eps)
        if len(one) <= most:
            assert torch.equal(alone[0], one), "bitwise untouched"


def test_where_nothing_is_long_nothing_is_copied(caplog: pytest.LogCaptureFixture):
    x = make("smooth", 0, 3, 12, 2)
    lengths = torch.tensor([5, 3, 4])
    with caplog.at_level(logging.INFO, LOGGER):
        for most in (None, 12, 99):
            assert average_points(x, most)[0] is x
        assert average_points(x, 5, lengths=lengths)[0] is x, "padding does not count"
    assert not caplog.records


def test_the_log_says_it_once_for_both_sides(caplog: pytest.LogCaptureFixture):
    x, y = make("smooth", 0, 3, 12, 2), make("smooth", 1, 4, 30, 2)
    with caplog.at_level(logging.INFO, LOGGER):
        (left, _), (right, _) = average_sides(10, (x, None), (y, torch.tensor([30, 9, 20, 10])))
    assert left.shape[1] == right.shape[1] == 10
    assert [record.getMessage() for record in caplog.records] == ["5 of 7 series, of up to 30 points, averaged to 10"]


def test_gradients_flow_to_every_point_and_not_to_padding():
    x = make("smooth", 0, 2, 7, 1).requires_grad_()
    weight = torch.tensor([[[1.0], [10.0], [100.0]]]).double()
    values, lengths = average_points(x, 3, lengths=[7, 2])
    assert lengths is not None and lengths.tolist() == [3, 2]
    (values * weight)[0].sum().backward()
    assert x.grad is not None and not x.grad[1].any()
    assert torch.allclose(x.grad[0, :, 0], torch.tensor([1 / 2] * 2 + [10 / 2] * 2 + [100 / 3] * 3).double())


def test_errors():
    for most in (0, -1, 2.5, True, "10"):
        message = "max_points must be a positive whole number, or None"
        assert_refused(message, average_points, torch.ones(1, 3, 1), most)
    x = torch.ones(2, 9, 1)
    x[1, 7] = torch.nan
    assert_refused("series 1, at time index 7", average_points, x, 4)
    assert_refused("y is not finite", signature_kernel, x[:1], x, max_points=4)
    assert torch.equal(average_points(x, 4, lengths=[9, 6])[0], torch.ones(2, 4, 1)), "padding may be NaN"


def test_kernels_average_before_they_solve(caplog: pytest.LogCaptureFixture):
    x, y = make("brownian", 0, 3, 20, 2), make("brownian", 1, 2, 9, 2)
    short, lengths = average_points(x, 6, lengths=[20, 4, 9])
    caplog.clear()
    with caplog.at_level(logging.INFO, LOGGER):
        cross = signature_kernel(x, y, lengths=[20, 4, 9], max_points=6)
        alone = signature_kernel(x, lengths=[20, 4, 9], max_points=6)
        diagonal = signature_kernel_diag(x, lengths=[20, 4, 9], max_points=6)
    assert len(caplog.records) == 3, "once a call"
    assert torch.equal(cross, signature_kernel(short, average_points(y, 6)[0], lengths=lengths))
    assert torch.equal(alone, signature_kernel(short, lengths=lengths))
    assert torch.equal(diagonal, signature_kernel_diag(short, lengths=lengths))
    x.requires_grad_()
    signature_kernel(x, max_points=6).sum().backward()
    assert bool(x.grad.any())
