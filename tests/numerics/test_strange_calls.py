"""Thousands of strange calls: the core against the reference, and errors that say which argument is wrong.

To see a call that failed again: `outcome(strange_call(seed))`, with the seed that the failure shows.
"""

import re

import pytest
import torch
from torch import Tensor

from helpers.strange_calls import Call, Outcome, outcome, raised_on_purpose, strange_call
from siggpde import signature, signature_kernel_diag
from siggpde.numerics import reference
from siggpde.numerics.core import core
from siggpde.numerics.inputs import as_batch

pytestmark = pytest.mark.skipif(core is None, reason="without the core there is nothing to compare")

# What an error speaks of: an argument, or the quantity that is out of range.
CULPRIT = re.compile(
    r"\b(x|y|increments|depth|words?|lengths(\[\d+\])?|y_lengths|tol|refine|solver|gradient|log|n_jobs|theta|signature|"
    r"static|bandwidth|amplitude|alpha|normalize|basis)\b"
)
LOST = "has lost all of its digits"  # only the core looks for paths that come back on themselves
_ACCURACY = {torch.float64: 1e-6, torch.float32: 1e-2}  # of what is returned without a warning, whatever the path


@pytest.mark.parametrize("block", range(5))
def test_strange_calls(block: int):
    check(range(20 * block, 20 * block + 20))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_strange_calls(block: int):
    check(range(1000 + 100 * block, 1100 + 100 * block))


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
    for name, found in (("native", fast), ("reference", slow)):
        if found.error is not None:
            explained(name, found.error)
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
    own = 1.0
    for name, lengths in (("x", "lengths"), ("y", "y_lengths")):
        batch = as_batch(call.arguments[name], call.arguments.get(lengths))
        if len(batch[0]):
            lift = {k: call.arguments[k] for k in ("static", "bandwidth", "amplitude", "alpha") if k in call.arguments}
            own *= float(signature_kernel_diag(batch[0].detach(), lengths=batch[1], **lift).max())
    return max(largest, own**0.5)
