"""Thousands of strange calls: the core against the reference, and errors that say which argument is wrong.

To see a call that failed again: `outcome(strange_call(seed))`, with the seed that the failure shows. Numbers, arrays
and flags of every kind are taken for what they are, or refused by name, whatever was called before.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided
from torch import Tensor

from helpers.random_paths import make
from helpers.refusals import assert_refused
from helpers.strange_calls import (
    KERNELS,
    OPERATIONS,
    Call,
    Outcome,
    by_operation,
    outcome,
    raised_on_purpose,
    strange_call,
)
from siggpde import signature, signature_kernel, signature_kernel_diag
from siggpde.numerics import reference
from siggpde.numerics.core import core
from siggpde.numerics.inputs import as_batch
from siggpde.numerics.words import words_up_to

needs_core = pytest.mark.skipif(core is None, reason="without the core there is nothing to compare")

# What an error speaks of: an argument, or the quantity that is out of range.
CULPRIT = re.compile(
    r"\b(x|y|increments|depth|words?|lengths(\[\d+\])?|y_lengths|tol|refine|solver|gradient|log|n_jobs|theta|signature|"
    r"static|bandwidth|amplitude|alpha|normalize|basis)\b"
)
LOST = "has lost all of its digits"  # only the core looks for paths that come back on themselves
_ACCURACY = {torch.float64: 1e-6, torch.float32: 1e-2}  # of what is returned without a warning, whatever the path


@needs_core
@pytest.mark.parametrize("block", range(5))
def test_strange_calls(block: int):
    check(range(20 * block, 20 * block + 20))


@needs_core
@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_strange_calls(block: int):
    check(range(1000 + 100 * block, 1100 + 100 * block))


@needs_core
def test_a_call_can_be_made_again():
    for seed in range(40):
        assert str(strange_call(seed)) == str(strange_call(seed))


def check(seeds: range) -> None:
    good = 0
    for seed in seeds:
        call = strange_call(seed)
        try:
            good += check_call(call)
        except AssertionError as failure:
            raise AssertionError(f"{call}\n{failure}") from failure
    assert good >= len(seeds) // 3, "hardly a call gets further than the checks"


def check_call(call: Call) -> bool:
    """Whether the call has a result, after checking that it is right or that the error is."""
    fast = outcome(call)
    untouched(call)
    slow = outcome(strange_call(call.seed), reference)
    for name, computed in (("native", fast), ("reference", slow)):
        if computed.error is not None:
            explained(name, computed.error)
    if fast.error is not None and LOST in str(fast.error):
        return False
    assert (fast.error is None) == (slow.error is None), f"native: {fast.error!r}\nreference: {slow.error!r}"
    if fast.error is None:
        agree(call, fast, slow)
    return fast.error is None


def explained(name: str, error: Exception) -> None:
    shown = f"{name}: {type(error).__name__}: {error}"
    assert isinstance(error, ValueError | TypeError | ArithmeticError), shown
    assert raised_on_purpose(error), f"not an error of ours: {shown}"
    assert CULPRIT.search(str(error)), f"which argument? {shown}"


def untouched(call: Call) -> None:
    """Arguments are as before the call."""
    for name, value in strange_call(call.seed).arguments.items():
        for before, after in zip(tensors(value), tensors(call.arguments[name]), strict=True):
            assert torch.equal(torch.isnan(before), torch.isnan(after)), f"{name} was modified"
            assert ((before == after) | torch.isnan(before)).all(), f"{name} was modified"


def tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value.detach()] if value.layout == torch.strided and not value.is_meta else []
    return [tensor for part in value for tensor in tensors(part)] if isinstance(value, list | tuple) else []


def agree(call: Call, fast: Outcome, slow: Outcome) -> None:
    differentiable = bool(call.leaves) and "diag_" not in call.function.__name__
    assert bool(fast.gradients) == bool(slow.gradients) == differentiable, "a graph where there should be none"
    if fast.warned:
        return
    for got, wanted in zip(fast.values + fast.gradients, slow.values + slow.gradients, strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        assert torch.isfinite(got).all()
        if not got.numel():
            continue
        tolerance = _ACCURACY[got.dtype] + 10 * float(call.arguments.get("tol", 1e-8))
        assert (got - wanted).abs().max() <= tolerance * size(call, wanted), f"native: {got}\nreference: {wanted}"


def size(call: Call, wanted: Tensor) -> float:
    """What errors are measured against: the largest number, and for a Gram matrix sqrt(k(X, X) k(Y, Y))."""
    largest = float(wanted.abs().max())
    if call.function.__name__ == "logsignature":  # sums of products of the signature's coefficients
        arguments = {name: call.arguments[name] for name in ("depth", "lengths") if name in call.arguments}
        return max(largest, float(signature(call.arguments["x"], **arguments).detach().abs().max()))
    if "static" in call.arguments:
        largest = max(largest, 1e-8)  # the reference rounds c and its slope, which are of order one
    if call.arguments.get("normalize"):
        return max(largest, 1.0)
    if call.function.__name__ != "signature_kernel" or call.arguments.get("y") is None:
        return largest
    norms = 1.0
    for name, lengths in (("x", "lengths"), ("y", "y_lengths")):
        batch = as_batch(call.arguments[name], call.arguments.get(lengths))
        if len(batch[0]):
            lift = {k: call.arguments[k] for k in ("static", "bandwidth", "amplitude", "alpha") if k in call.arguments}
            norms *= float(signature_kernel_diag(batch[0].detach(), lengths=batch[1], **lift).max())
    return max(largest, norms**0.5)


operations = by_operation(OPERATIONS)


def plain() -> Tensor:
    return make("brownian", 0, 3, 5, 2)


def first(result: Any) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("depth", [1.0, True, "1", [1], (), torch.tensor(1), np.float64(1), np.True_, 1j, float("nan")])
def test_a_depth_that_only_equals_an_integer_is_refused_even_after_that_integer(depth: Any):
    signature(plain(), 1)
    for n_jobs in (None, 2):
        assert_refused("depth must be an integer, got ", signature, plain(), depth, n_jobs=n_jobs)


@pytest.mark.parametrize("letter", [0.5, "0", None, [0], (0,), {}, float("nan"), float("inf"), 1j, torch.zeros(2)])
def test_a_letter_that_is_no_integer_is_refused(letter: Any):
    signature(plain(), words=[(0, 1)])
    message = r"a word is a tuple of integers such as \(0, 1\), got "
    assert_refused(message, signature, plain(), words=[(letter, 1)])


@pytest.mark.parametrize("first_call", [True, False])
@pytest.mark.parametrize("letter", [0.0, 0j, False, np.int8(0), np.False_, np.float32(0), torch.tensor(0)])
def test_equal_words_are_one_word_in_whatever_order_they_come(letter: Any, first_call: bool):
    words = [(0, 1), (1, 0, 1, int(first_call))]
    wanted = signature(plain(), 4)[:, [4, 15 + 10 + int(first_call)]]
    assert words_up_to(2, 4)[25 + int(first_call)] == words[1]
    calls = [words, [(letter, 1), words[1]]]
    for given in calls if first_call else reversed(calls):
        assert torch.allclose(signature(plain(), words=given), wanted, rtol=1e-12)


def test_integers_of_every_kind_are_integers():
    x = plain()
    assert torch.equal(signature(x, np.int32(2)), signature(x, 2))
    letters = np.array([[0, 1], [1, 0]], np.int16)
    assert torch.equal(signature(x, words=letters), signature(x, words=[(0, 1), (1, 0)]))
    assert torch.equal(signature(x, words=torch.tensor([[0, 1]])), signature(x, words=[(0, 1)]))
    some = {"solver": "fd", "refine": np.uint8(2), "n_jobs": np.int64(2), "tol": np.float32(1e-3)}
    assert torch.equal(signature_kernel(x, **some), signature_kernel(x, solver="fd", refine=2))
    assert torch.equal(signature_kernel_diag(x, log=np.True_), signature_kernel_diag(x, log=True))


@pytest.mark.parametrize("log", ["x", None, 1, 0.0, [True], torch.tensor(True)])
def test_log_is_true_or_false(log: Any):
    for name in ("diagonal", "points", "scales"):
        assert_refused("log must be True or False, got ", KERNELS[name], plain(), log=log)


@operations
def test_any_number_of_threads_and_lengths_of_any_kind(operation: Callable[..., Any]):
    wanted = first(operation(plain(), lengths=[5, 1, 3], n_jobs=1))
    backwards = np.array([3, 1, 5])[::-1]
    integers = [backwards.astype(dtype) for dtype in (np.int8, np.uint16, np.uint64, ">i4")]
    for lengths in (*integers, backwards, torch.tensor([5, 0, 1, 0, 3])[::2], (5, np.int64(1), 3)):
        assert torch.equal(first(operation(plain(), lengths=lengths)), wanted)
    for count in (3, 1025, 2**31, 10**30):
        assert torch.equal(first(operation(plain(), lengths=[5, 1, 3], n_jobs=count)), wanted)


@operations
@pytest.mark.parametrize("n", [1, 3])
def test_arrays_with_any_strides(operation: Callable[..., Any], n: int):
    x = plain()[:n].numpy()
    wanted = first(operation(torch.from_numpy(x)))
    frozen = x.copy()
    frozen.flags.writeable = False
    strided = torch.empty(5, 2, 2 * n, dtype=torch.float64)[..., ::2].permute(2, 0, 1).copy_(torch.from_numpy(x))
    equal = [np.asfortranarray(x), x.astype(">f8"), np.broadcast_to(x, x.shape), strided, frozen]
    for axis in range(3):
        turned = np.flip(np.flip(x, axis).copy(), axis)
        assert turned.strides[axis] < 0
        equal += [turned, [one[::-1][::-1] for one in turned]]
    for series in equal:
        assert torch.equal(first(operation(series)), wanted)
    assert first(operation(x.astype(np.float32))).dtype == torch.float32
    odd = as_strided(x[:1], strides=(3, *x.strides[1:]))  # the stride of an axis of one entry may be anything
    assert torch.equal(first(operation(odd)), first(operation(torch.from_numpy(x[:1].copy()))))
