"""The device on which an estimator computes, from its setting `device` and the series."""

from __future__ import annotations

import logging
import os
from typing import Any

import torch
from torch import Tensor

log = logging.getLogger(__name__)
_FIX = "take device='cpu', or 'cuda' or 'cuda:1' where there are such"


def input_device(X: Any) -> torch.device:
    """The device of the series X: the CPU, unless they are tensors on another one.

    Series are checked and filled on the CPU. Where they have to be copied there, a warning is logged.

    Examples:
        >>> input_device([[0.0, 1.0]])
        device(type='cpu')
    """
    first = X[0] if isinstance(X, list | tuple) and X else X
    device = first.device if isinstance(first, Tensor) else torch.device("cpu")
    if device.type != "cpu":
        log.warning("X is on %s and is copied to the CPU, where series are checked and filled", device)
    return device


def usable_device(device: Any) -> torch.device:
    """The device of a name, with its index such as "cuda:0"; a ValueError where float64 cannot be computed on it.

    Where `torchrun` started several processes, "cuda" is the GPU with the index LOCAL_RANK.
    """
    if not isinstance(device, str | torch.device):
        raise ValueError(
            f"device must be 'auto' or a device of torch such as 'cpu', 'cuda' or 'cuda:1', got {device!r}"
        )
    if str(device) == "cuda" and torch.cuda.is_available() and os.environ.get("LOCAL_RANK"):
        device = f"cuda:{os.environ['LOCAL_RANK']}"  # of several processes on a machine each has its own GPU
    try:
        torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device={str(device)!r} cannot be used: torch has none of that name; {_FIX}") from error
    try:
        tried = torch.zeros(1, dtype=torch.float64, device=device)
        tried.item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        why = "torch sees no CUDA device" if _without_cuda(device) else str(error).splitlines()[0]
        raise ValueError(f"device={str(device)!r} cannot be used: {why}; {_FIX}") from error
    return tried.device


def _without_cuda(device: str | torch.device) -> bool:
    return str(device).startswith("cuda") and not torch.cuda.is_available()
