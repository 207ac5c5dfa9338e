"""Which parameters training moves, and how to keep some of them still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def learned(part: nn.Module) -> list[nn.Parameter]:
    """The parameters of a part of the model that training may move."""
    return [parameter for parameter in part.parameters() if parameter.requires_grad]


@contextmanager
def at_rest(part: nn.Module) -> Iterator[None]:
    """Inside, the part's parameters need no gradient."""
    parameters = learned(part)
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
