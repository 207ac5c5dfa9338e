"""How much a compressed file may expand: small files that fill the memory are refused before they are unpacked."""

from __future__ import annotations

import os

VARIABLE = "SIGGPDE_MAX_GB"

_GIGABYTE = 2**30
_USUAL = 100  # times that compressed series become larger when they are unpacked; most become 1 to 10 times larger


def check_expansion(source: str, stored: int, expanded: int) -> None:
    """Raises ValueError for `stored` bytes that become `expanded` bytes: over 1 GB, and over 100 times as many.

    The environment variable SIGGPDE_MAX_GB sets another number of GB.

    Examples:
        >>> check_expansion("a.npz", 3_000_000, 3_000_000_000)
        Traceback (most recent call last):
        ...
        ValueError: a.npz: 2.9 MB in the file expand to 2.8 GB in memory, 1000 times as much, which whole files of \
series hardly do. If it is right, set the environment variable SIGGPDE_MAX_GB=3
    """
    if expanded <= _allowed() or expanded <= _USUAL * max(1, stored):
        return
    raise ValueError(
        f"{source}: {stored / 2**20:.1f} MB in the file expand to {expanded / _GIGABYTE:.1f} GB in memory, "
        f"{expanded // max(1, stored)} times as much, which whole files of series hardly do. If it is right, set the "
        f"environment variable {VARIABLE}={-(-expanded // _GIGABYTE)}"
    )


def _allowed() -> float:
    text = os.environ.get(VARIABLE, "1")
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = -1.0
    if not gigabytes >= 0:
        raise ValueError(f"the environment variable {VARIABLE} must be a number of GB, such as 8; got {text!r}")
    return gigabytes * _GIGABYTE
