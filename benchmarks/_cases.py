"""The paths that are measured, their scale, and their reference values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import _reference
import torch
from torch import Tensor

KINDS = ("smooth", "brownian")
STATIC_KERNELS = ("rbf", "matern52", "rational_quadratic")
KERNEL_SHAPES = ((200, 46, 2), (50, 8, 3), (64, 200, 5))
SIGNATURE_CASES = (((200, 46, 2), 7), ((50, 8, 3), 5), ((128, 100, 6), 4))
GRAM_SHAPE = (200, 46, 2)
MEMORY_SHAPE = (16, 1000, 5)

TARGETS = (5.0, 100.0)  # k(X, X) of a series, drawn log-uniformly
ALLOWED = (2.0, 1000.0)  # asserted of every series


def raw_paths(kind: str, shape: tuple[int, int, int], seed: int = 0) -> Tensor:
    """Unscaled paths (n, length, d): a random line plus three random sines a channel, or a random walk."""
    n, length, channels = shape
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    if kind == "brownian":
        return normal(n, length, channels).cumsum(1) / math.sqrt(length)
    if kind != "smooth":
        raise ValueError(f"kind is {kind!r}, expected one of {KINDS}")
    time = torch.linspace(0, 1, length, dtype=torch.float64)
    x = normal(n, 1, channels) * time[:, None]
    for frequency in (1, 2, 3):
        phase = normal(n, 1, channels) * 4
        x = x + normal(n, 1, channels) / frequency * torch.sin(math.pi * frequency * time[:, None] + phase)
    return x


@cache
def paths(kind: str, shape: tuple[int, int, int], seed: int = 0) -> Tensor:
    """Paths (n, length, d), each scaled so that k(X, X) is close to a target drawn from `TARGETS`."""
    x = raw_paths(kind, shape, seed)
    thin = x if shape[1] <= 200 else x[:, :: shape[1] // 100]
    parts = 4 if shape[1] <= 50 else 1
    uniform = torch.rand(shape[0], generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    low, high = (math.log(target) for target in TARGETS)
    target = torch.exp(low + (high - low) * uniform)
    low, high = torch.full_like(target, 1e-3), torch.full_like(target, 30.0)
    for _ in range(14):
        middle = (low * high).sqrt()
        scaled = thin * middle[:, None, None]
        k = _reference.crude_kernel(scaled, parts)
        # Finite differences are wild where cells are large, and k(X, X) is at least 1.
        small = (k >= 1) & (k < target) & (scaled.diff(dim=1).square().sum(-1).amax(1) < 6)
        low, high = torch.where(small, middle, low), torch.where(small, high, middle)
    return (x * low[:, None, None]).contiguous()


@dataclass(frozen=True)
class KernelCase:
    """Paths, and on the first `count` of them k(X, X) and its gradient by the reference."""

    kind: str
    x: Tensor
    k: Tensor
    gradient: Tensor

    @property
    def count(self) -> int:
        return len(self.k)

    @property
    def name(self) -> str:
        return f"{shape_name(self.x.shape)} {self.kind}"


@cache
def kernel_case(kind: str, shape: tuple[int, int, int]) -> KernelCase:
    """A kernel case; errors are taken on as many series as the reference can afford."""
    x = paths(kind, shape)
    k, gradient = _reference.kernel_and_gradient(x[: 64 if shape[1] <= 50 else 8])
    assert ALLOWED[0] < k.min() and k.max() < ALLOWED[1], f"k(X, X) is in {k.min()} to {k.max()} for {kind} {shape}"
    return KernelCase(kind, x, k, gradient)


@cache
def lifted_case(kind: str, shape: tuple[int, int, int], static: str) -> KernelCase:
    """The same paths lifted by a static kernel of bandwidth and amplitude 1."""
    x = paths(kind, shape)
    k, gradient = _reference.kernel_and_gradient(x[: 64 if shape[1] <= 50 else 8], static)
    return KernelCase(f"{kind} {static}", x, k, gradient)


@cache
def gram_case(kind: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Paths, some rows (m,) and columns (m,) of their Gram matrix, and the reference's block of it (m, m)."""
    x = paths(kind, GRAM_SHAPE)
    rows, columns = torch.arange(20), torch.arange(100, 120)
    i, j = torch.cartesian_prod(rows, columns).T
    return x, rows, columns, _reference.kernel_pairs(x[i], x[j]).detach().reshape(20, 20)


def reference_gap() -> float:
    """How far the reference is from deep truncated inner products, on paths scaled down until those converge."""
    return max(_reference.truncation_gap(paths(kind, GRAM_SHAPE)[:4] / 2, depth=16) for kind in KINDS)


def shape_name(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(str(size) for size in shape) + ")"
