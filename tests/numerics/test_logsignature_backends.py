"""The native log-signature against the reference: values, gradients, batches, instruction sets, errors."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.random_paths import modest, paths
from siggpde import logsignature, logsignature_basis, signature
from siggpde.numerics import reference
from siggpde.numerics.backend import backend_for
from siggpde.numerics.core import core
from siggpde.numerics.logsignature import log_basis

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-3}
BASES = ["lyndon", "hall", "words"]
sizes = st.sampled_from([(1, 1), (1, 7), (2, 1), (2, 7), (3, 5), (4, 4), (5, 3), (7, 3), (12, 2), (20, 2)])


@modest
@given(
    sizes, st.integers(1, 20), st.integers(1, 9), st.sampled_from(list(TOLERANCE)), st.sampled_from(BASES), st.data()
)
@example((2, 7), 17, 9, torch.float32, "hall", None)
def test_native_equals_reference(size, n: int, length: int, dtype, basis, data):
    channels, depth = size
    lengths = None
    if data is not None and data.draw(st.booleans()):
        lengths = data.draw(st.lists(st.integers(1, length), min_size=n, max_size=n))
    x = paths(n, length, channels, dtype, seed=n)
    for row, end in enumerate(lengths or []):
        x[row, end:] = float("nan")
    x.requires_grad_()
    ours = logsignature(x, depth, basis=basis, lengths=lengths)
    leaf = x.detach().double().requires_grad_()
    theirs = reference.logsignature(signature(leaf, depth, lengths=lengths), log_basis(channels, depth, basis), 1)
    assert ours.dtype == dtype and ours.shape == (n, len(logsignature_basis(channels, depth, basis)))
    weights = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours_grad = torch.autograd.grad(ours, x, weights.to(dtype))[0]
    theirs_grad = torch.autograd.grad(theirs, leaf, weights)[0]
    for a, b in [(ours, theirs), (ours_grad, theirs_grad)]:
        error = float((a.double() - b).detach().abs().max())
        assert error <= TOLERANCE[dtype] * max(1.0, float(b.detach().abs().max()))


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize(("channels", "depth"), [(2, 4), (3, 3), (1, 3)])
def test_gradcheck(channels: int, depth: int, basis):
    x = paths(3, 4, channels).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: logsignature(x, depth, basis=basis, lengths=[4, 1, 3]), [x])


def test_a_result_depends_on_its_series_alone():
    x = paths(37, 12, 3, size=5.0)
    lengths = (torch.arange(37) % 12) + 1
    together = logsignature(x, 4, lengths=lengths)
    assert torch.equal(logsignature(x, 4, lengths=lengths, n_jobs=2), together)
    for i in (0, 5, 36):
        torch.testing.assert_close(logsignature(x[i : i + 1, : lengths[i]], 4)[0], together[i], rtol=1e-13, atol=1e-15)
    ragged = [x[i, : lengths[i]] for i in range(len(x))]
    torch.testing.assert_close(logsignature(ragged, 4), together, rtol=1e-13, atol=1e-15)


def test_many_series_on_two_threads():
    x = paths(300, 5, 4, torch.float32)
    x.requires_grad_()
    results = []
    for n_jobs in (1, 2):
        out = logsignature(x, 5, n_jobs=n_jobs)
        results.append((out.detach(), torch.autograd.grad(out.sum(), x)[0]))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])


def test_an_empty_batch_and_a_single_point():
    assert logsignature(torch.zeros(0, 5, 2), 3).shape == (0, 5)
    assert not logsignature(torch.ones(2, 1, 2), 3).any()


@pytest.mark.skipif(core is None, reason="the native core is not there")
def test_no_second_derivative():
    x = paths(1, 3, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(logsignature(x, 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        gradient.sum().backward()


@pytest.mark.skipif(core is None, reason="the native core is not there")
@pytest.mark.parametrize("isa", ["baseline", "avx2", "reference"])
def test_other_instruction_sets_and_the_reference_backend(isa: str, tmp_path):
    x = paths(19, 30, 3).requires_grad_()
    out = logsignature(x, 4)
    out.sum().backward()
    torch.save((x.detach(), out.detach(), x.grad), tmp_path / "expected.pt")
    code = f"""
import torch
from siggpde import logsignature
x, expected, gradient = torch.load({str(tmp_path / "expected.pt")!r})
x.requires_grad_()
out = logsignature(x, 4)
out.sum().backward()
torch.testing.assert_close(out.detach(), expected, rtol=0, atol=1e-12)
torch.testing.assert_close(x.grad, gradient, rtol=0, atol=1e-12)
"""
    name = "SIGGPDE_BACKEND" if isa == "reference" else "SIGGPDE_ISA"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env={**os.environ, name: isa}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


good = paths(3, 4, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: logsignature(good, 0), "depth must be an integer of at least 1, got 0"),
        (lambda: logsignature(good, 2.0), "depth must be an integer of at least 1, got 2.0"),
        (lambda: logsignature(good, 40), "depth 40 with 2 channels has .* words of .* letters in all"),
        (lambda: logsignature(good, 2, basis="shirshov"), "basis must be 'lyndon', 'hall' or 'words', got 'shirshov'"),
        (lambda: logsignature_basis(2, 2, "tensor"), "basis must be 'lyndon', 'hall' or 'words', got 'tensor'"),
        (lambda: logsignature(good[0], 2), r"\(n, length, channels\), got \(4, 2\)"),
        (lambda: logsignature(good, 2, n_jobs=0), "n_jobs must be"),
        (lambda: logsignature(good / 0, 2), "x is not finite"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_overflow_names_the_series():
    x = paths(20, 9, 2, torch.float32)
    x[11] *= 1e12
    with pytest.raises(OverflowError, match=r"the signature of series 11 is too large for torch\.float32; .*float64"):
        logsignature(x, 6)
    large = signature(paths(20, 9, 2, torch.float32), 3)
    large[7] = 1e30  # no signature, but one whose products are out of range
    for backend in (backend_for(large), reference):
        with pytest.raises(OverflowError, match=r"the log-signature of series 7 is too large for torch\.float32"):
            backend.logsignature(large, log_basis(2, 3, "lyndon"), 1)
