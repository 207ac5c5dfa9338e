"""What is said when a signature or its kernel cannot be computed: what was got, where, and the fix."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.random_paths import make, paths
from siggpde import (
    extend,
    signature,
    signature_kernel,
    signature_kernel_diag,
    signature_kernel_diag_gradient,
    signature_kernel_diag_scales,
)
from siggpde.numerics.words import words_up_to

KERNELS: dict[str, Callable[..., Any]] = {
    "diagonal": signature_kernel_diag,
    "gradient": signature_kernel_diag_gradient,
    "gram": signature_kernel,
    "scales": lambda x, **settings: signature_kernel_diag_scales(x, [1.0, 1.0], **settings),  # pyright: ignore
}
SIGNATURE: dict[str, Callable[..., Any]] = {"signature": lambda x, **settings: signature(x, 2, **settings)}
VARIATION: dict[str, Callable[..., Any]] = {
    "variation": lambda x, **settings: signature_kernel_diag(x.requires_grad_(), gradient="variation", **settings)
}
INPUTS = KERNELS | SIGNATURE | VARIATION


def by_operation(operations: dict[str, Callable[..., Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("operation", operations.values(), ids=operations)


def good() -> Tensor:
    return make("smooth", 0, 4, 6, 2)


@by_operation(INPUTS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("position", [(0, 0, 0), (17, 3, 1), (19, 5, 0)])
def test_numbers_that_are_not_finite_are_located(
    operation: Callable[..., Any], value: float, position: tuple[int, ...]
):
    x = make("smooth", 0, 20, 6, 2)  # more than the lanes of a vector
    x[19, 5, 1] = x[position] = value
    series, time, channel = position
    where = rf"x is not finite \({value}\) in series {series}, at time index {time}, channel {channel}"
    with pytest.raises(ValueError, match=where):
        operation(x)
    with pytest.raises(ValueError, match=where):
        operation(x.float(), **({} if operation is INPUTS["signature"] else {"solver": "fd"}))
    with pytest.raises(ValueError, match=where):
        operation(x.detach().requires_grad_(), n_jobs=2)


def test_numbers_after_the_end_may_be_anything():
    x = good()
    x[2, 4:] = float("nan")
    for operation in INPUTS.values():
        result = operation(x, lengths=[6, 6, 4, 6])
        assert (result[0] if isinstance(result, tuple) else result).isfinite().all()
        with pytest.raises(ValueError, match="series 2, at time index 4, channel 0"):
            operation(x, lengths=[6, 6, 5, 6])


@pytest.mark.parametrize("gradient", ["adjoint", "variation"])
def test_numbers_that_are_not_finite_are_located_in_y(gradient: Any):
    x, y = good().requires_grad_(), good()
    y[1, 4, 1] = float("nan")
    with pytest.raises(ValueError, match=r"y is not finite \(nan\) in series 1, at time index 4, channel 1"):
        signature_kernel(x, y, gradient=gradient)
    point = torch.tensor([[[0.0, float("inf")]]]).double()
    with pytest.raises(ValueError, match=r"y is not finite \(inf\) in series 0, at time index 0, channel 1"):
        signature_kernel(x, point, gradient=gradient)


def test_numbers_that_are_not_finite_are_located_without_pairs():
    x = good()
    x[1, 2, 0] = float("nan")
    for rows, columns, name in ((x, good()[:0], "x"), (good()[:0], x, "y")):
        with pytest.raises(ValueError, match=rf"{name} is not finite \(nan\) in series 1, at time index 2, channel 0"):
            signature_kernel(rows, columns)


@by_operation(KERNELS | SIGNATURE)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(5, 2), r"x must have shape \(n, length, channels\), got \(5, 2\); for one series write x\[None\]"),
        (torch.zeros(5), r"got \(5,\); for one series"),
        (torch.zeros(1, 1, 5, 2), r"got \(1, 1, 5, 2\)$"),
        (torch.zeros(3, 0, 2), "have no points; give at least one"),
        (torch.zeros(3, 4, 0), "have no channels; give at least one"),
        (torch.zeros(2, 3, 2, dtype=torch.int64), "must be float32 or float64, got torch.int64; convert it"),
        (torch.zeros(2, 3, 2).half(), "must be float32 or float64, got torch.float16"),
        (torch.zeros(2, 3, 2, dtype=torch.complex64), "pass two real channels"),
        (np.zeros((2, 3, 2), np.int32), "must be float32 or float64, got torch.int32"),
        (np.zeros((1, 3, 2), np.longdouble), "x must be float32 or float64, got float128; convert it"),
        (np.zeros((1, 3, 2), complex), "x must be a float tensor"),
        (np.zeros((1, 3, 2), object), "x must be a float tensor"),
        (np.ma.masked_greater(np.ones((1, 3, 2)), 0.5), "x has masked numbers"),
        (np.array(["a"]), "must be a float tensor, a numpy array or a list of them, got ndarray"),
        ("abc", "must be a float tensor, a numpy array or a list of them, got str"),
        (None, "x must be a float tensor, a numpy array or a list of them, got NoneType"),
        ([], "x is an empty list, so its channels are unknown"),
        ([[[0.0, 1.0], [2.0]]], r"x\[0\] must be an array or a list of them"),
        ([torch.zeros(3, 2), torch.zeros(3)], r"x\[1\] must have shape \(length, channels\), got \(3,\)"),
        ([torch.zeros(3, 2), torch.zeros(0, 2)], r"x\[1\] must have shape \(length, channels\), got \(0, 2\)"),
        ([torch.zeros(3, 2), torch.zeros(3, 1)], r"x\[1\] has 1 channels of torch.float32, but x\[0\] has 2"),
        ([torch.zeros(3, 2), torch.zeros(3, 2).double()], "all series need the same"),
        (torch.ones(1, 3, 2).to_sparse(), r"x must be a dense tensor, got torch.sparse_coo; convert it with .to_dense"),
        ([torch.ones(3, 2).to_sparse()], r"x\[0\] must be a dense tensor"),
        (torch.ones(1, 3, 2, device="meta"), "x is on the device meta, where tensors have no numbers"),
        ([torch.ones(3, 2), torch.ones(3, 2, device="meta")], r"x\[1\] is on the device meta"),
    ],
)
def test_series_of_a_wrong_kind_are_named(operation: Callable[..., Any], x: Any, message: str):
    if isinstance(x, np.ndarray) and x.dtype == np.longdouble == np.float64:
        pytest.skip("long double is double here")
    with pytest.raises(ValueError, match=message):
        operation(x)


@by_operation(KERNELS | VARIATION)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "exact"}, "solver must be 'series' or 'fd', got 'exact'"),
        ({"solver": ["series"]}, r"solver must be 'series' or 'fd', got \['series'\]"),
        ({"solver": None}, "solver must be 'series' or 'fd', got None"),
        ({"solver": np.zeros(2)}, "solver must be 'series' or 'fd', got array"),
        ({"refine": 2}, "refine=2 is for solver='fd'; the series solver takes its accuracy from `tol`"),
        ({"solver": "fd", "refine": -1}, "refine must be an integer from 0 to 12, got -1"),
        ({"solver": "fd", "refine": 13}, "refine must be an integer from 0 to 12, got 13"),
        ({"solver": "fd", "refine": 1.5}, "refine must be an integer from 0 to 12, got 1.5"),
        ({"solver": "fd", "refine": 1.0}, "refine must be an integer from 0 to 12, got 1.0"),
        ({"solver": "fd", "refine": True}, "refine must be an integer from 0 to 12, got True"),
        ({"solver": "fd", "refine": [1]}, r"refine must be an integer from 0 to 12, got \[1\]"),
        ({"refine": False}, "refine must be an integer from 0 to 12, got False"),
        ({"tol": 0.0}, "tol must be between 0 and 1, got 0.0"),
        ({"tol": 1.0}, "tol must be between 0 and 1, got 1.0"),
        ({"tol": float("nan")}, "tol must be between 0 and 1, got nan"),
        ({"tol": None}, "tol must be between 0 and 1, got None"),
        ({"tol": "1e-8"}, "tol must be between 0 and 1, got '1e-8'"),
        ({"tol": [1e-8]}, r"tol must be between 0 and 1, got \[1e-08\]"),
        ({"tol": 1e-8j}, "tol must be between 0 and 1, got 1e-08j"),
    ],
)
def test_wrong_settings(operation: Callable[..., Any], settings: dict[str, Any], message: str):
    for valid in ({"solver": "fd", "refine": 1}, {"solver": "series", "refine": 0}):  # what equals them is no better
        operation(good()[:1, :1], **valid)
    with pytest.raises(ValueError, match=message):
        operation(good(), **settings)


@by_operation(INPUTS)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_jobs": 0}, "n_jobs must be None, -1"),
        ({"n_jobs": -2}, "n_jobs must be None, -1"),
        ({"n_jobs": 1.5}, r"n_jobs must be None, -1 \(all cores\) or a positive integer, got 1.5"),
        ({"n_jobs": True}, "n_jobs must be None, -1 .* got True"),
        ({"n_jobs": "2"}, "n_jobs must be None, -1 .* got '2'"),
        ({"lengths": [6, 6, 6]}, r"lengths must be integers of shape \(4,\), one for each series of x"),
        ({"lengths": 6}, r"lengths must be integers of shape \(4,\), one for each series of x, got shape \(\)"),
        ({"lengths": "many"}, r"lengths must be integers of shape \(4,\), one for each series of x, got <U4"),
        ({"lengths": [6, "6", 6, 6]}, r"lengths must be integers of shape \(4,\)"),
        ({"lengths": [6.0, 6.0, 6.0, 6.0]}, "lengths must be integers .* got float64"),
        ({"lengths": [[6], [6, 6]]}, "lengths must be integers .* got list"),
        ({"lengths": [True] * 4}, "lengths must be integers .* got bool"),
        ({"lengths": torch.tensor([6] * 4, device="meta")}, "lengths must be integers"),
        ({"lengths": [2**70, 6, 6, 6]}, "lengths must be integers"),
        ({"lengths": [6, 0, 6, 6]}, r"lengths\[1\] is 0, but series of x have between 1 and 6 points"),
        ({"lengths": [6, 6, 6, 7]}, r"lengths\[3\] is 7, but series of x have between 1 and 6 points"),
    ],
)
def test_wrong_lengths_and_threads(operation: Callable[..., Any], settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        operation(good(), **settings)


def test_wrong_gradient():
    for operation in (signature_kernel_diag, signature_kernel):
        with pytest.raises(ValueError, match="gradient must be 'adjoint', 'variation' or 'augmented', got 'tape'"):
            operation(good(), gradient="tape")  # pyright: ignore[reportArgumentType]


def test_lists_have_their_own_lengths():
    for operation in (signature_kernel_diag, INPUTS["signature"]):
        with pytest.raises(ValueError, match="x is a list of series, which have their own lengths; leave `lengths`"):
            operation([torch.zeros(3, 2)], lengths=[3])


def test_pairs_that_do_not_fit():
    x = good()
    with pytest.raises(ValueError, match="x has 2 channels and y has 1; they need the same"):
        signature_kernel(x, x[:, :, :1])
    with pytest.raises(ValueError, match=r"x is torch.float64 on cpu and y is torch.float32 on cpu; convert one"):
        signature_kernel(x, x.float())
    with pytest.raises(ValueError, match="y_lengths is given, but y is not"):
        signature_kernel(x, y_lengths=[6, 6, 6, 6])
    with pytest.raises(ValueError, match=r"lengths\[0\] is 9, but series of y have between 1 and 6 points"):
        signature_kernel(x, x, y_lengths=[9, 6, 6, 6])


@pytest.mark.parametrize(
    "theta",
    [
        torch.ones(3), torch.ones(1), torch.tensor([1.0, float("nan")]), torch.ones(1, 2), "ab", None, [1.0],
        [[1.0], [1.0, 1.0]], [1.0, 1.0j], {"a": 1}, [1.0, float("inf")],
    ],
)  # fmt: skip
def test_wrong_scales(theta: Any):
    with pytest.raises(ValueError, match="theta must be 2 finite scales, one a channel of x, got "):
        signature_kernel_diag_scales(good(), theta)


@pytest.mark.parametrize(
    ("dtype", "big", "fix"), [(torch.float32, 1e12, "or use float64"), (torch.float64, 1e200, "rescale")]
)
def test_overflow_names_the_series(dtype, big, fix):
    x = paths(20, 9, 2, dtype)
    x[11] *= big
    with pytest.raises(OverflowError, match=f"the signature of series 11 is too large for {dtype}; .*{fix}"):
        signature(x, 6)


def test_increments_that_overflow():
    x = torch.tensor([[[-1e308], [1e308]]], dtype=torch.float64)
    with pytest.raises(OverflowError, match="series 0"):
        signature(x, 1)


three = paths(3, 4, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: signature(three), "exactly one of depth and words, got none"),
        (lambda: signature(three, 2, [(0,)]), "exactly one of depth and words, got both"),
        (lambda: signature(three, -1), "depth must be at least 0, got -1"),
        (lambda: signature(three, 1.5), "depth must be an integer, got 1.5"),
        (lambda: signature(three, 40), "depth 40 with 2 channels has 2199023255551 words of .* letters in all"),
        (lambda: signature(three, 100_000), "depth 100000 is beyond the 1000 letters that a word may have; lower it"),
        (lambda: signature(three[..., :1], 1001), "depth 1001 is beyond the 1000 letters"),
        (lambda: signature(three, 10**9), "depth 1000000000 is beyond the 1000 letters"),
        (lambda: signature(three, 10**10_000), r"depth more than 10\^9999 is beyond the 1000 letters"),
        (lambda: signature(three, 1000), r"has more than 10\^301 words of more than 10\^304 letters in all, of which"),
        (lambda: signature(three, words=[(), (0,) * 20_000]), "word 1 has 20000 letters; a word may have 1000"),
        (lambda: signature(three, words=[(0, 2)]), r"word 0 is \(0, 2\), but with 2 channels"),
        (lambda: signature(three, words=[(0,), (0,)]), r"word \(0,\) comes more than once"),
        (lambda: signature(three, words=[0]), "a word is a tuple of integers"),
        (lambda: extend(three[:, 0], three, words_up_to(2, 2)), r"\(n, words\) = \(3, 7\), got \(3, 2\)"),
        (lambda: extend(three.new_ones(3, 2), three, [(), (0, 1)]), r"not prefix-closed: \(0,\) is missing"),
        (lambda: extend(torch.ones(3, 3), three, words_up_to(2, 1)), "convert one to the other"),
        (lambda: extend(three.new_ones(3, 3), three / 0, words_up_to(2, 1)), "increments is not finite"),
        (lambda: extend(three.new_ones(3, 2), three, [(), (7,)]), r"word 1 is \(7,\), but with 2 channels"),
    ],
)
def test_mistakes_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("asked", [{"depth": 1000}, {"words": [(0,) * 1000, (0,) * 3]}])
def test_the_longest_words_that_are_allowed(asked):
    """S^(0..0) = (x_T - x_0)^j / j! in one channel; a gradient walks the word as well, in threads with small stacks."""
    x = (200 * paths(20, 3, 1)).requires_grad_()
    out = signature(x, **asked, n_jobs=2)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    height = (x[:, -1, 0] - x[:, 0, 0]).detach()
    assert torch.allclose(out[:, [-1 if "words" in asked else 3]], height[:, None] ** 3 / 6, rtol=1e-9)
    assert out.shape == (20, 1001 if "depth" in asked else 2)
    assert torch.isfinite(gradient).all()
