"""The choices in turning a series into a path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Append = Literal["none", "variation", "arc"]


@dataclass(frozen=True)
class PathOptions:
    """How a series becomes a path.

    - `time`: a channel that rises evenly, from 0 to sqrt(12) over the whole series (unit spread); where time stamps
      are given it is these, from 0 to sqrt(12) over the median duration of a training series. Without it only the order
      of values counts, not their timing.
    - `base_point`: the path starts at 0, so that positions count and not only changes.
    - `append`: `"variation"`, for every channel the running sum of its absolute changes, which a path hides;
      `"arc"`, one channel with the running length of the path; both divided by their spread over the training set.
    - `lead_lag`: every channel twice, one a step behind the other, which brings in quadratic variation.
    - `difference`: how many times the series is replaced by its changes from point to point, before all else.
    """

    time: bool = True
    base_point: bool = True
    append: Append = "none"
    lead_lag: bool = False
    difference: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.difference, int) or not 0 <= self.difference <= 5:
            raise ValueError(f"difference must be an integer from 0 to 5, got {self.difference!r}")
        if self.append not in ("none", "variation", "arc"):
            raise ValueError(f"append must be 'none', 'variation' or 'arc', got {self.append!r}")

    def channels(self, channels: int) -> int:
        """The number of channels of the path of a series with `channels` channels."""
        appended = {"none": 0, "variation": channels, "arc": 1}[self.append]
        return int(self.time) + (2 if self.lead_lag else 1) * (channels + appended)
