"""Paths for the tests: families that are easy and families that are not, and hypothesis strategies over them.

Every maker takes a generator, a length, a number of channels and a size, and returns (length, channels), float64. The
size keeps k(X, X) in range: it is the length of a smooth path, the root of the quadratic variation of a rough one and
the largest jump of one that jumps.
"""

import json
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.processes import run

Maker = Callable[[torch.Generator, int, int, float], Tensor]

# Derandomised: a failure is the same for everyone. No deadline: nothing here is about time.
modest = settings(max_examples=25, deadline=None, derandomize=True)
few = settings(max_examples=10, deadline=None, derandomize=True)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def smooth(random: torch.Generator, length: int, channels: int, size: float) -> Tensor:
    times = torch.linspace(0, 1, length).double()[:, None, None]
    frequency, phase, weight = (torch.rand(4, channels, generator=random).double() for _ in range(3))
    path = (weight * torch.sin(12 * frequency * times + 6 * phase)).sum(1)
    return path * (size / max(1e-9, float(path.diff(dim=0).norm(dim=1).sum())))


def brownian(random: torch.Generator, length: int, channels: int, size: float) -> Tensor:
    steps = torch.randn(length, channels, generator=random).double()
    return (steps * size / (length * channels) ** 0.5).cumsum(0)


def spiky(random: torch.Generator, length: int, channels: int, size: float) -> Tensor:
    path = smooth(random, length, channels, size)
    for at in torch.randint(0, length, (3,), generator=random).tolist():
        spike = torch.randn(channels, generator=random).double()
        path[at] += spike * size / max(1e-9, float(spike.norm()))
    return path


def drift(random: torch.Generator, length: int, channels: int, size: float) -> Tensor:
    direction = torch.randn(channels, generator=random).double()
    line = torch.linspace(0, 1, length).double()[:, None] * direction * size / max(1e-9, float(direction.norm()))
    return line + brownian(random, length, channels, 0.2)


def heavy_tailed(random: torch.Generator, length: int, channels: int, size: float) -> Tensor:
    steps = torch.randn(length, channels, generator=random).double()
    steps = steps / torch.rand(length, 1, generator=random).double() ** 0.7
    return (steps * (size / max(1e-9, float(steps.norm(dim=1).max())))).cumsum(0)


def out_and_back(random: torch.Generator, length: int, channels: int, size: float) -> Tensor:
    """Goes out, comes back on itself and ends with a little of something else: k(X, X) rises, then falls."""
    out = smooth(random, max(1, length // 2), channels, size)
    end = out[0] + brownian(random, max(0, length - 2 * len(out)) + 3, channels, 0.3)
    return torch.cat([out, out.flip(0), end])[:length]


def stride_and_return(random: torch.Generator, length: int, channels: int, size: float) -> Tensor:
    """One long segment out and small steps back, or the other way round, and a little of something else."""
    end = torch.randn(channels, generator=random).double()
    end = end * size / max(1e-9, float(end.norm()))
    back = torch.linspace(1, 0, max(1, length - 4)).double()[:, None] * end
    path = torch.cat([torch.zeros(1, channels).double(), back])
    path = path.flip(0) if torch.rand(1, generator=random) < 0.5 else path
    return torch.cat([path, path[-1] + brownian(random, 4, channels, 0.3)])[:length]


FAMILIES: dict[str, Maker] = {
    "smooth": smooth,
    "brownian": brownian,
    "spiky": spiky,
    "drift": drift,
    "heavy-tailed": heavy_tailed,
    "out-and-back": out_and_back,
    "stride-and-return": stride_and_return,
}


def make(family: str, seed: int, n: int, length: int, channels: int, size: float = 1.0) -> Tensor:
    """(n, length, channels) of one family."""
    random = generator(seed)
    return torch.stack([FAMILIES[family](random, length, channels, size) for _ in range(n)])


@st.composite
def batches(
    draw: st.DrawFn,
    n: int = 2,
    min_length: int = 1,
    max_length: int = 60,
    max_channels: int = 30,
    max_size: float = 2.0,
) -> Tensor:
    """(n, length, channels) of paths of one family: any length, any number of channels, small to fairly large."""
    family = draw(st.sampled_from(sorted(FAMILIES)))
    size = max_size * 10 ** draw(st.floats(-2, 0))
    length = draw(st.integers(min_length, max_length))
    return make(family, draw(st.integers(0, 2**31)), n, length, draw(st.integers(1, max_channels)), size)


def numbers_from(code: str, **environment: str) -> Any:
    """What a fresh Python process prints, as JSON, with more environment variables."""
    return json.loads(run(code, **environment))


def paths(n, length, channels, dtype=torch.float64, seed=0, size=2.0):
    """Random paths whose total length is about `size`."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(n, length, channels, dtype=torch.float64, generator=generator)
    return (steps.cumsum(1) * (size / (length * channels**0.5))).to(dtype)
