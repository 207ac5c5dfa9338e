"""Threads of OpenMP that wait sleep: spinning ones slow a command down beside other busy programs."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}  # of every runtime, and of Intel's and LLVM's
_OF_THE_USER = (*_PASSIVE, "GOMP_SPINCOUNT", "KMP_LIBRARY")


def wait_passively(environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets the variables that OpenMP reads when torch is loaded, unless the user has set one of them, or it is too
    late.

    Examples:
        >>> given = {"GOMP_SPINCOUNT": "1000"}
        >>> wait_passively(given)
        >>> given
        {'GOMP_SPINCOUNT': '1000'}
    """
    if "torch" not in sys.modules and not any(name in environment for name in _OF_THE_USER):
        environment.update(_PASSIVE)
