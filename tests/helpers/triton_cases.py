"""What the cases of the signature kernel in Triton's interpreter share."""

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from siggpde.numerics import triton as launch

EPS = {torch.float64: 1e-13, torch.float32: 1e-5}
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def leaf(value: Tensor | float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.as_tensor(value).detach().to(dtype).clone().requires_grad_()


def weights(value: Tensor) -> Tensor:
    """So that no symmetry hides a mistake."""
    return torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)


def with_gradients(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return value.detach(), *torch.autograd.grad((value * weights(value)).sum(), inputs)


def weighted(value: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(value.square().sum(), x)[0]


def worst(got: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> float:
    """The largest difference, beside the largest number of each result."""
    pairs = [(a.double(), b.double()) for a, b in zip(got, wanted, strict=True)]
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def launches_without_memory(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[str]:
    """The list to which the names of the kernels that a module launches are added; all chunks are now the smallest."""
    launches: list[str] = []

    def counted(kernel: Any, *args: Any, **constants: Any) -> None:
        launches.append(kernel.fn.__name__)
        launch.run(kernel, *args, **constants)

    monkeypatch.setattr(module, "run", counted)
    monkeypatch.setattr(launch, "SCRATCH_BYTES", 1)
    return launches


def small_bands(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Rows come in bands and, for the gradient, in segments: now of four rows each, as if memory were small."""
    monkeypatch.setattr(launch, "MAX_ROWS", 4)
    assert module.rows_per_segment(6, 1, launch.tile(6)[1]) == 4
