"""The native signature against the reference: values and gradients, any words, any shape, every instruction set."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.random_paths import paths
from siggpde.numerics import inputs, reference
from siggpde.numerics.core import core
from siggpde.numerics.signature import extend, signature
from siggpde.numerics.words import prefix_closure, words, words_up_to

pytestmark = pytest.mark.skipif(core is None, reason="the native core is not there")
TOLERANCE = {torch.float64: 2e-12, torch.float32: 2e-4}
dtypes = st.sampled_from([torch.float64, torch.float32])


def oracle(x, listed, lengths=None):
    """The reference on the prefix closure, in float64."""
    closure = prefix_closure(listed)
    mask = inputs.row_mask(x, None if lengths is None else torch.as_tensor(lengths))
    out = reference.chen_signature(torch.where(mask[:, :, None], x.double(), 0.0), mask, closure)
    return out[:, [closure.index(word) for word in listed]]


def compare(x, listed, lengths=None):
    """Same values and same gradients, relative to the largest."""
    x = x.requires_grad_()
    ours, theirs = signature(x, words=listed, lengths=lengths), oracle(x, listed, lengths)
    weights = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours_grad = torch.autograd.grad(ours, x, weights.to(x.dtype))[0]
    if not theirs.requires_grad:  # only the empty word
        assert torch.equal(ours.double(), theirs) and not ours_grad.any()
        return
    theirs_grad = torch.autograd.grad(theirs, x, weights)[0]
    for a, b in [(ours, theirs), (ours_grad, theirs_grad)]:
        error = float((a.double() - b.double()).detach().abs().max())
        assert error <= TOLERANCE[x.dtype] * max(1.0, float(b.detach().abs().max()))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(1, 14), (2, 9), (3, 5), (4, 4), (5, 4), (6, 4), (7, 3), (8, 3), (13, 2), (30, 2)]),
    st.integers(1, 20),
    st.integers(1, 20),
    dtypes,
    st.randoms(),
)
@example((2, 9), 9, 20, torch.float64, None)  # several tiles
@example((7, 4), 3, 6, torch.float32, None)
def test_all_words_and_arbitrary_words(shape, n, length, dtype, random):
    channels, depth = shape
    x = paths(n, length, channels, dtype, seed=n)
    everything = words_up_to(channels, depth)
    compare(x, everything)
    if random is not None:
        compare(x, random.sample(everything, random.randint(1, len(everything))))
        compare(x, words(channels, random.randint(1, len(everything))))


@pytest.mark.parametrize("depth", range(12))
def test_every_depth(depth):
    compare(paths(9, 7, 2, size=4.0), words_up_to(2, depth))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 25), st.integers(1, 12), dtypes, st.data())
def test_lengths(n, length, dtype, data):
    lengths = data.draw(st.lists(st.integers(1, length), min_size=n, max_size=n))
    x = paths(n, length, 3, dtype, seed=n)
    for row, end in enumerate(lengths):
        x[row, end:] = float("nan")
    compare(x, words_up_to(3, 3), lengths)


@pytest.mark.parametrize("length", [49, 50, 51, 64, 65, 300])
def test_long_paths_are_walked_back_in_segments(length):
    generator = torch.Generator().manual_seed(0)
    everything = words_up_to(2, 6)
    some = [everything[i] for i in torch.randperm(len(everything), generator=generator)[:60].tolist()]
    compare(paths(9, length, 2, size=4.0), some)


def test_float32_gradients_hold_at_length_2000():
    for channels in (2, 3):
        x = paths(4, 2000, channels, size=40.0).requires_grad_()
        weights = torch.randn(4, len(words_up_to(channels, 4)), dtype=torch.float64)
        exact = torch.autograd.grad(signature(x, 4), x, weights)[0]
        single = x.detach().float().requires_grad_()
        rounded = torch.autograd.grad(signature(single, 4), single, weights.float())[0]
        again = single.detach().double().requires_grad_()
        same_points = torch.autograd.grad(signature(again, 4), again, weights.float().double())[0]
        assert (rounded - same_points).abs().max() <= 1e-3 * same_points.abs().max()
        assert (rounded - exact).abs().max() <= 1e-3 * exact.abs().max()


@pytest.mark.parametrize(("channels", "depth", "length"), [(1, 4, 4), (2, 5, 5), (3, 3, 3), (5, 2, 3)])
def test_gradcheck(channels, depth, length):
    x = paths(3, length, channels).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: signature(x, depth, lengths=[length, 1, length - 1]), [x])


def test_gradcheck_of_extend_in_both_arguments():
    listed = words_up_to(2, 4)
    start = torch.randn(2, len(listed), dtype=torch.float64).requires_grad_()  # any tensor, its first column included
    increments = torch.randn(2, 3, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda s, v: extend(s, v, listed), [start, increments])
    big = words_up_to(3, 6)  # several tiles
    start, increments = torch.randn(2, len(big), dtype=torch.float64), torch.randn(2, 3, 3, dtype=torch.float64)
    for leaf in (start, increments):
        leaf.requires_grad_()
    ours, theirs = extend(start, increments, big), reference.apply_chen(start, increments, big)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    weights = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad(ours, [start, increments], weights),
        torch.autograd.grad(theirs, [start, increments], weights),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * float(b.abs().max()))


def test_no_second_derivative():
    x = paths(1, 3, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(signature(x, 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        gradient.sum().backward()


@pytest.mark.parametrize("isa", ["baseline", "avx2", "reference"])
def test_other_instruction_sets_and_the_reference_backend(isa, tmp_path):
    x = paths(19, 30, 3).requires_grad_()
    lengths = torch.arange(19) + 3
    out = signature(x, 5, lengths=lengths)
    out.sum().backward()
    torch.save((x.detach(), lengths, out.detach(), x.grad), tmp_path / "expected.pt")
    code = f"""
import torch
from siggpde.numerics.core import core
from siggpde.numerics.signature import signature
x, lengths, expected, gradient = torch.load({str(tmp_path / "expected.pt")!r})
assert core is None if {isa!r} == "reference" else core.isa() <= {isa!r}, core
x.requires_grad_()
out = signature(x, 5, lengths=lengths)
out.sum().backward()
torch.testing.assert_close(out.detach(), expected, rtol=0, atol=1e-12)
torch.testing.assert_close(x.grad, gradient, rtol=0, atol=1e-12)
"""
    name = "SIGGPDE_BACKEND" if isa == "reference" else "SIGGPDE_ISA"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env={**os.environ, name: isa}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
