"""What the signature says about a mistake: what was got, what was expected, and the fix."""

import pytest
import torch

from helpers.random_paths import paths
from siggpde.numerics.signature import extend, signature
from siggpde.numerics.words import words_up_to


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("position", [(0, 0, 0), (17, 5, 1), (9, 2, 0), (19, 8, 1)])
def test_the_first_bad_number_is_named(value, dtype, position):
    x = paths(20, 9, 2, dtype)
    x[position] = value
    x[19, 8, 1] = value
    message = f"in series {position[0]}, at time index {position[1]}, channel {position[2]}; drop or interpolate"
    with pytest.raises(ValueError, match=message):
        signature(x, 2)
    with pytest.raises(ValueError, match=message):
        signature(x.requires_grad_(), 2, n_jobs=2)


def test_a_bad_number_before_the_end_is_named():
    x = paths(4, 9, 2)
    x[2, 4:] = float("nan")
    assert signature(x, 2, lengths=[9, 9, 4, 9]).isfinite().all()
    with pytest.raises(ValueError, match="series 2, at time index 4, channel 0"):
        signature(x, 2, lengths=[9, 9, 5, 9])


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


good = paths(3, 4, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: signature(good[0], 2), r"\(n, length, channels\), got \(4, 2\); for one series write x\[None\]"),
        (lambda: signature(good[None], 2), r"\(n, length, channels\), got \(1, 3, 4, 2\)"),
        (lambda: signature(good.long(), 2), r"float32 or float64, got torch.int64; convert it with .float\(\)"),
        (lambda: signature(good.long().numpy(), 2), "got torch.int64; convert"),
        (lambda: signature(good.half(), 2), "got torch.float16; convert"),
        (lambda: signature(good[:, :0], 2), r"\(3, 0, 2\): its series have no points"),
        (lambda: signature(good[:, :, :0], 2), r"\(3, 4, 0\): its series have no channels"),
        (lambda: signature(good), "exactly one of depth and words, got none"),
        (lambda: signature(good, 2, [(0,)]), "exactly one of depth and words, got both"),
        (lambda: signature(good, -1), "depth must be at least 0, got -1"),
        (lambda: signature(good, 1.5), "depth must be an integer, got 1.5"),
        (lambda: signature(good, 40), "depth 40 with 2 channels has 2199023255551 words of .* letters in all"),
        (lambda: signature(good, 100_000), "depth 100000 is beyond the 1000 letters that a word may have; lower it"),
        (lambda: signature(good[..., :1], 1001), "depth 1001 is beyond the 1000 letters"),
        (lambda: signature(good, 10**9), "depth 1000000000 is beyond the 1000 letters"),
        (lambda: signature(good, 10**10_000), r"depth more than 10\^9999 is beyond the 1000 letters"),
        (lambda: signature(good, 1000), r"has more than 10\^301 words of more than 10\^304 letters in all, of which"),
        (lambda: signature(good, words=[(), (0,) * 20_000]), "word 1 has 20000 letters; a word may have 1000"),
        (lambda: signature(good, words=[(0, 2)]), r"word 0 is \(0, 2\), but with 2 channels"),
        (lambda: signature(good, words=[(0,), (0,)]), r"word \(0,\) comes more than once"),
        (lambda: signature(good, words=[0]), "a word is a tuple of integers"),
        (lambda: signature(good, 2, lengths=[1, 2]), r"lengths must be integers of shape \(3,\)"),
        (lambda: signature(good, 2, lengths=[1.0, 2.0, 3.0]), "lengths must be integers"),
        (lambda: signature(good, 2, lengths=[1, 5, 1]), r"lengths\[1\] is 5, but series of x have between 1 and 4"),
        (lambda: signature(good, 2, lengths=[1, 1, 0]), r"lengths\[2\] is 0"),
        (lambda: signature([], 2), "empty list, so its channels are unknown"),
        (lambda: signature([good[0], good[0, :, 0]], 2), r"x\[1\] must have shape \(length, channels\), got \(4,\)"),
        (lambda: signature([good[0], good[0, :0]], 2), r"x\[1\] must have shape"),
        (lambda: signature([good[0], good[0, :, :1]], 2), r"x\[1\] has 1 channels of torch.float64, but x\[0\] has 2"),
        (lambda: signature([good[0], good[0].float()], 2), "all series need the same"),
        (lambda: signature([good[0]], 2, lengths=[4]), "have their own lengths"),
        (lambda: signature("abc", 2), "must be a float tensor, a numpy array or a list of them, got str"),
        (lambda: signature(good, 2, n_jobs=0), "n_jobs must be None, -1"),
        (lambda: extend(good[:, 0], good, words_up_to(2, 2)), r"\(n, words\) = \(3, 7\), got \(3, 2\)"),
        (lambda: extend(good.new_ones(3, 2), good, [(), (0, 1)]), r"not prefix-closed: \(0,\) is missing"),
        (lambda: extend(torch.ones(3, 3), good, words_up_to(2, 1)), "convert one to the other"),
        (lambda: extend(good.new_ones(3, 3), good / 0, words_up_to(2, 1)), "increments is not finite"),
        (lambda: extend(good.new_ones(3, 2), good, [(), (7,)]), r"word 1 is \(7,\), but with 2 channels"),
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
