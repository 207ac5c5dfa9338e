"""SHA-256 of tensors: what data is, in 64 letters."""

from __future__ import annotations

import hashlib
from typing import Any

from torch import Tensor


def digest(*tensors: Tensor | None, facts: Any = None) -> str:
    """The hash of tensors (their shapes, types and bytes; None is left out) and of the `repr` of `facts`, if given.

    Examples:
        >>> import torch
        >>> digest(torch.zeros(2)) == digest(torch.zeros(2), None)
        True
        >>> digest(torch.zeros(2)) == digest(torch.zeros(2, 1))
        False
    """
    found = hashlib.sha256()
    for tensor in tensors:
        if tensor is not None:
            found.update(str((tuple(tensor.shape), tensor.dtype)).encode())
            found.update(tensor.detach().cpu().contiguous().numpy().data)
    if facts is not None:
        found.update(repr(facts).encode())
    return found.hexdigest()
