"""Numbers and lists as people write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def percent(share: float, digits: int = 1) -> str:
    """Returns a share as a percentage; never "100 %" or "0 %" of what is not all or none.

    >>> percent(0.9996), percent(1.0), percent(0.0001), percent(0.25)
    ('99.9 %', '100 %', '0.1 %', '25.0 %')
    """
    if math.isnan(share):
        return "–"
    least = 10.0**-digits
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    return f"{min(max(100 * share, least), 100 - least):.{digits}f} %"


def number(value: float | None, digits: int = 3) -> str:
    """Returns a number with so many digits that count; a dash for None and NaN.

    >>> number(1234.567), number(0.01234), number(float("nan")), number(-3.0)
    ('1235', '0.0123', '–', '−3.00')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    text = f"{value:.0f}" if whole >= digits else f"{value:#.{digits}g}"
    return text.replace("-", "−")


def counted(count: int, one: str, many: str | None = None) -> str:
    """Returns a count with its noun, whose plural has an s unless it is given or "one" ends with one.

    >>> counted(1, "class", "classes"), counted(12345, "series"), counted(2, "channel")
    ('1 class', '12,345 series', '2 channels')
    """
    plural = one if one.endswith("s") else f"{one}s"
    return f"{count:,} {one if count == 1 else many or plural}"


def listed(names: Sequence[Any], most: int = 8) -> str:
    """Returns names with commas, at most so many, none of them endless."""
    shown = ", ".join(short(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def span(low: float, high: float) -> str:
    """Returns a range, or one number where its ends are the same."""
    if low == high:
        return f"{low:,.0f}" if low == round(low) else number(low)
    whole = low == round(low) and high == round(high)
    return f"{low:,.0f} to {high:,.0f}" if whole else f"{number(low)} to {number(high)}"


def short(value: Any, most: int = 60) -> str:
    """Returns a name that is not endless."""
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
