"""Random paths and static kernels for the tests of lifted signature kernels."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from helpers.random_paths import generator
from siggpde.numerics.static_kernels import KINDS, StaticKernel, check_static

LIFTS = [name for name in KINDS if name != "linear"]
seeds = st.integers(0, 2**31)


def paths(seed: int, n: int, length: int, channels: int) -> Tensor:
    """White noise, (n, length, channels), float64."""
    return torch.randn(n, length, channels, generator=generator(seed), dtype=torch.float64)


@st.composite
def lifts(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments that choose a static kernel."""
    name = draw(st.sampled_from(LIFTS))
    alpha = {"alpha": draw(st.floats(0.2, 5))} if name == "rational_quadratic" and draw(st.booleans()) else {}
    return {"static": name, "bandwidth": draw(st.floats(0.3, 3)), "amplitude": draw(st.floats(0.1, 2.5)), **alpha}


def as_reference(settings: dict[str, Any]) -> StaticKernel | None:
    """The static kernel as the backends take it."""
    return check_static(settings["static"], settings["bandwidth"], settings["amplitude"], settings.get("alpha"))[0]
