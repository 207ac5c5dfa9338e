"""Memory of value and gradient: long paths keep checkpoints, not every cell."""

from pathlib import Path

import pytest

from helpers.random_paths import numbers_from

CODE = """
import json, torch, siggpde
def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
x = torch.randn({shape}, generator=torch.Generator().manual_seed(0)).double()
x = (x * {size} / (x.shape[1] * x.shape[2]) ** 0.5).cumsum(1)
def run(x):
    x = x.clone().requires_grad_()
    {operation}.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert (x.grad != 0).any()
run(x[:1, :4])
before = peak()
run(x)
print(json.dumps(peak() - before))
"""
MB, GIB = 1e6, 2.0**30
DIAGONAL, GRAM = "siggpde.signature_kernel_diag(x)", "siggpde.signature_kernel(x)"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("shape", "operation", "max_bytes"),
    [
        ((16, 1000, 5), DIAGONAL, 50 * MB),
        ((1, 10_000, 3), DIAGONAL, GIB),
        ((1, 4000, 3), GRAM, GIB),
        ((60, 200, 5), GRAM, 50 * MB),
    ],
)
def test_the_peak_stays_low(shape: tuple[int, ...], operation: str, max_bytes: float):
    assert numbers_from(CODE.format(shape=shape, size=1.5, operation=operation)) < max_bytes
