"""The device on which an estimator computes, from its setting `device` and the series."""

from __future__ import annotations

import logging
import os
from typing import Any

import torch
from torch import Tensor

log = logging.getLogger(__name__)
_FIX = "take device='cpu', or 'cuda' or 'cuda:1' where there are such"


def chosen_device(device: Any, X: Any) -> torch.device:
    """The device a fit runs on: the one named; for "auto" that of the tensors X, or the CPU where X is anything else.

    Examples:
        >>> chosen_device("auto", [[0.0, 1.0]])
        device(type='cpu')
    """
    if isinstance(device, str) and device == "auto":
        return _device_of(X)
    return usable_device(device)


def warn_of_copy(X: Any) -> None:
    """Logs a warning where series have to be copied from another device to the CPU, to be checked and filled there."""
    device = _device_of(X)
    if device.type != "cpu":
        log.warning("X is on %s and is copied to the CPU, where series are checked and filled", device)


def _device_of(X: Any) -> torch.device:
    first = X[0] if isinstance(X, list | tuple) and X else X
    return first.device if isinstance(first, Tensor) else torch.device("cpu")


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
