"""Which parameters of a module training may change, and how to keep them fixed for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """The parameters of a module that require a gradient."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Inside, the module's parameters require no gradient."""
    parameters = trainable(module)
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
