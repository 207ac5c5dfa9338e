"""SHA-256 of tensors and settings."""

from __future__ import annotations

import hashlib
from typing import Any

from torch import Tensor


def digest(*tensors: Tensor | None, settings: Any = None) -> str:
    """The hash of tensors (their shapes, types and bytes; None is left out) and of the `repr` of `settings`, if given.

    Examples:
        >>> import torch
        >>> digest(torch.zeros(2)) == digest(torch.zeros(2), None)
        True
        >>> digest(torch.zeros(2)) == digest(torch.zeros(2, 1))
        False
    """
    hasher = hashlib.sha256()
    for tensor in tensors:
        if tensor is not None:
            hasher.update(str((tuple(tensor.shape), tensor.dtype)).encode())
            hasher.update(tensor.detach().cpu().contiguous().numpy().data)
    if settings is not None:
        hasher.update(repr(settings).encode())
    return hasher.hexdigest()
