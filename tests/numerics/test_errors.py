"""What is said when a signature or its kernel cannot be computed: what was got, where, and the fix."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.random_paths import make, paths
from helpers.refusals import assert_refused
from helpers.strange_calls import KERNELS, OPERATIONS, by_operation
from siggpde import extend, signature, signature_kernel, signature_kernel_diag, signature_kernel_diag_scales
from siggpde.numerics.words import words_up_to

VARIATION: dict[str, Callable[..., Any]] = {
    "variation": lambda x, **settings: signature_kernel_diag(x.requires_grad_(), gradient="variation", **settings)
}
INPUTS = OPERATIONS | VARIATION


WRONG_REFINE = "refine must be an integer from 0 to 12"


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
    assert_refused(where, operation, x)
    assert_refused(where, operation, x.float(), **({} if operation is INPUTS["signature"] else {"solver": "fd"}))
    assert_refused(where, operation, x.detach().requires_grad_(), n_jobs=2)


def test_numbers_after_the_end_may_be_anything():
    x = good()
    x[2, 4:] = float("nan")
    for operation in INPUTS.values():
        result = operation(x, lengths=[6, 6, 4, 6])
        assert (result[0] if isinstance(result, tuple) else result).isfinite().all()
        assert_refused("series 2, at time index 4, channel 0", operation, x, lengths=[6, 6, 5, 6])


@pytest.mark.parametrize("gradient", ["adjoint", "variation"])
def test_numbers_that_are_not_finite_are_located_in_y_and_without_pairs(gradient: Any):
    x, bad = good().requires_grad_(), good()
    bad[1, 4, 1] = float("nan")
    point = torch.tensor([[[0.0, float("inf")]]]).double()
    where = r"is not finite \(nan\) in series 1, at time index 4, channel 1"
    for rows, columns, message in (
        (x, bad, f"y {where}"),
        (good()[:0], bad, f"y {where}"),
        (bad, good()[:0], f"x {where}"),
        (x, point, r"y is not finite \(inf\) in series 0, at time index 0, channel 1"),
    ):
        assert_refused(message, signature_kernel, rows, columns, gradient=gradient)


@by_operation(OPERATIONS)
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
    assert_refused(message, operation, x)


@by_operation(KERNELS | VARIATION)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({"solver": v}, "solver must be 'series' or 'fd'") for v in ("exact", ["series"], None, np.zeros(2))),
        *(({"solver": "fd", "refine": v}, WRONG_REFINE) for v in (-1, 13, 1.5, 1.0, True, [1])),
        ({"refine": False}, WRONG_REFINE),
        ({"refine": 2}, "refine=2 is for solver='fd'; the series solver takes its accuracy from `tol`"),
        *(({"tol": v}, "tol must be between 0 and 1") for v in (0.0, 1.0, float("nan"), None, "1e-8", [1e-8], 1e-8j)),
    ],
)
def test_wrong_settings(operation: Callable[..., Any], settings: dict[str, Any], message: str):
    for valid in ({"solver": "fd", "refine": 1}, {"solver": "series", "refine": 0}):  # what equals them is no better
        operation(good()[:1, :1], **valid)
    wrong = repr(settings[list(settings)[-1]])
    received = rf", got {re.escape(wrong)}" if "must be" in message else ""
    assert_refused(message + received, operation, good(), **settings)


@by_operation(INPUTS)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({"n_jobs": v}, rf"n_jobs must be None, -1 .*, got {v!r}") for v in (0, -2, 1.5, True, "2")),
        *(
            ({"lengths": lengths}, r"lengths must be integers of shape \(4,\), one for each series of x")
            for lengths in (
                [6, 6, 6], 6, "many", [6, "6", 6, 6], [6.0] * 4, [[6], [6, 6]], [True] * 4, [2**70, 6, 6, 6],
                torch.tensor([6] * 4, device="meta"),
            )
        ),
        ({"lengths": [6, 0, 6, 6]}, r"lengths\[1\] is 0, but series of x have between 1 and 6 points"),
        ({"lengths": [6, 6, 6, 7]}, r"lengths\[3\] is 7, but series of x have between 1 and 6 points"),
    ],
)  # fmt: skip
def test_wrong_lengths_and_threads(operation: Callable[..., Any], settings: dict[str, Any], message: str):
    assert_refused(message, operation, good(), **settings)


@pytest.mark.parametrize(
    "theta",
    [
        torch.ones(3), torch.ones(1), torch.tensor([1.0, float("nan")]), torch.ones(1, 2), "ab", None, [1.0],
        [[1.0], [1.0, 1.0]], [1.0, 1.0j], {"a": 1}, [1.0, float("inf")],
    ],
)  # fmt: skip
def test_wrong_scales(theta: Any):
    message = "theta must be 2 finite scales, one a channel of x, got "
    assert_refused(message, signature_kernel_diag_scales, good(), theta)


def test_overflow_names_the_series():
    for dtype, big, fix in ((torch.float32, 1e12, "or use float64"), (torch.float64, 1e200, "rescale")):
        x = paths(20, 9, 2, dtype)
        x[11] *= big
        message = f"the signature of series 11 is too large for {dtype}; .*{fix}"
        assert_refused(message, signature, x, 6, error=OverflowError)
    beyond = torch.tensor([[[-1e308], [1e308]]], dtype=torch.float64)  # whose difference is infinite
    assert_refused("series 0", signature, beyond, 1, error=OverflowError)


three = paths(3, 4, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: signature_kernel(three, gradient="tape"), "must be 'adjoint', 'variation' or 'augmented'"),  # pyright: ignore
        (lambda: signature_kernel_diag(three, gradient="tape"), "gradient must be 'adjoint', .* got 'tape'"),  # pyright: ignore
        (lambda: signature_kernel_diag([three[0]], lengths=[3]), "x is a list of series, which have their own lengths"),
        (lambda: signature([three[0]], 2, lengths=[3]), "x is a list of series, .* leave `lengths`"),
        (lambda: signature_kernel(three, three[:, :, :1]), "x has 2 channels and y has 1; they need the same"),
        (
            lambda: signature_kernel(three, three.float()),
            "x is torch.float64 on cpu and y is torch.float32 on cpu; conv",
        ),
        (lambda: signature_kernel(three, y_lengths=[4, 4, 4]), "y_lengths is given, but y is not"),
        (lambda: signature_kernel(three, three, y_lengths=[9, 4, 4]), r"lengths\[0\] is 9, but series of y have"),
        (lambda: signature(three), "exactly one of depth and words, got none"),
        (lambda: signature(three, 2, [(0,)]), "exactly one of depth and words, got both"),
        (lambda: signature(three, -1), "depth must be at least 0, got -1"),
        (lambda: signature(three, 1.5), "depth must be an integer, got 1.5"),
        (lambda: signature(three, 40), "depth 40 with 2 channels has 2199023255551 words of .* letters in all"),
        (lambda: signature(three, 100_000), "depth 100000 is beyond the 1000 letters that a word may have; lower it"),
        (lambda: signature(three[..., :1], 1001), "depth 1001 is beyond the 1000 letters"),
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
    assert_refused(message, call)


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
