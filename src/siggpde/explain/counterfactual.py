"""What a counterfactual is: a series that differs from another in one stretch, and is predicted otherwise."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from siggpde.explain.segments import when


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """One series, changed in one stretch so that the prediction becomes `target`.

    - `original`, `series` (channels, points): before and after, in the units of the data, with all channels handed in.
    - `start`, `end`: the first and the last point that is changed, counted from 0, or their time stamps; `channels`:
      the names of the channels that are changed there.
    - `label`, `target`: the labels predicted before and wanted after. For a number `label` is None and `target` is the
      interval that the prediction is to lie in.
    - `probability_before`, `probability_after`: of the target; None for numbers. `mean_before`, `mean_after`: the
      predicted numbers; None for classes.
    - `p_value`: the novelty of the changed series (`estimator.novelty`); None where the model does not know.
    - `size`: the mean over all points and channels of \\|change\\| / spread, the spread of a channel being its standard
      deviation over the training series; `share`: the share of all values that is changed.
      Time stamps and gaps are no values, and stay.
    - `valid`: whether the changed series is predicted as the target. If not, `series` is the best of what was tried.
    """

    original: np.ndarray
    series: np.ndarray
    start: float
    end: float
    channels: tuple[str, ...]
    label: Any
    target: Any
    probability_before: float | None
    probability_after: float | None
    mean_before: float | None
    mean_after: float | None
    p_value: float | None
    size: float
    share: float
    valid: bool

    def __str__(self) -> str:
        where = f"{' and '.join(self.channels)}, {when(self.start, self.end)}"
        much = f"{self.share:.0%} of the values, by {self.size:.2g} spreads on average over the series"
        if self.probability_after is not None:
            before = f"{self.label} becomes {self.target}"
            after = (
                f"probability of {self.target} {self.probability_before:.3g} before, {self.probability_after:.3g} after"
            )
        else:
            before = f"{self.mean_before:.4g} becomes {self.mean_after:.4g}"
            after = f"the target is {_interval(*self.target)}"
        novelty = "" if self.p_value is None else f"; novelty p = {self.p_value:.2g}"
        if self.valid:
            return f"{before} if {where} is changed ({much}); {after}{novelty}"
        wanted = self.target if self.mean_after is None else _interval(*self.target)
        if not self.channels:
            return f"no change of a stretch was found that makes it {wanted}, or nearer to it"
        if self.mean_after is not None:
            after = f"{self.mean_before:.4g} before, {self.mean_after:.4g} after"
        return f"no change of a stretch was found that makes it {wanted}; the best tried is of {where}: {after}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counterfactual) and self.to_dict() == other.to_dict()

    __hash__ = None  # pyright: ignore[reportAssignmentType] - arrays have no hash

    def to_dict(self) -> dict[str, Any]:
        """Plain values; gaps are None, and so is an end of the target that is infinite."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("original", "series"):
            plain[name] = [[None if np.isnan(one) else one for one in row] for row in plain[name].tolist()]
        target = self.target
        if self.mean_after is not None:
            target = [end if np.isfinite(end) else None for end in self.target]
        return plain | {"channels": list(self.channels), "target": target}


def _interval(low: float, high: float) -> str:
    if np.isinf(low):
        return f"at most {high:.4g}"
    return f"at least {low:.4g}" if np.isinf(high) else f"{low:.4g} to {high:.4g}"
