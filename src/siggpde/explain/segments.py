"""When and where the evidence is: contributions of the segments and channels of a series."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

_SCALED = ("values", "sampling_error", "std", "contrast", "contrast_error", "contrast_std")


@dataclass(frozen=True)
class Stretch:
    """Neighbouring segments of one channel that speak for the same side.

    `start` and `end` are the first and the last point, or their time stamps; `does` says what the channel does there,
    such as "rises". `value` is the sum of the contributions, `error` its sampling error, and `std` its standard
    deviation under the posterior, None where that was not asked for.
    """

    channel: str
    start: float
    end: float
    does: str
    value: float
    error: float
    std: float | None

    def __str__(self) -> str:
        doubt = "" if self.std is None else f" ± {self.std:.2g}"
        return f"{self.channel} {self.does}, {when(self.start, self.end)}: {self.value:+.3g}{doubt}"


@dataclass(frozen=True, eq=False)
class SegmentContributions:
    """Of one series, what each segment of each channel contributes to the latent of every class, or to the number.

    - `channels`, `classes`: the names of the channels, and the labels (None for a number).
    - `starts`, `ends` (segments,): the first and the last point of every segment, counted from 0, or their time stamps.
    - `values` (segments, channels, classes), for a number (segments, channels, 1): the contributions. Their sum over
      segments and channels is `latents` - `baseline` (classes,): the latents (logits, where there is a link) of the
      series, and those with everything cut out or, with a background, their mean over it.
    - `sampling_error`: standard errors of the values, as far as more permutations would change them; how uncertain the
      posterior itself is does not count in it.
    - `std`: the standard deviations of the values under the posterior: how far the model itself is unsure of them, and
      how far its members disagree. More training series make them smaller, more permutations do not. None, as
      `contrast_std` is, without `uncertainty`.
    - `contrast` (segments, channels), `contrast_error`, `contrast_std`: the same of the predicted class minus the
      runner-up, or of the number.
    - `main`: the stretches that matter most to the contrast, largest first.
    - `permutations`: how many were drawn; `timed`: whether `starts` and `ends` are time stamps.
    """

    channels: tuple[str, ...]
    classes: list[Any] | None
    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    sampling_error: np.ndarray
    std: np.ndarray | None
    contrast: np.ndarray
    contrast_error: np.ndarray
    contrast_std: np.ndarray | None
    latents: np.ndarray
    baseline: np.ndarray
    permutations: int
    timed: bool = False
    main: list[Stretch] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """What speaks for the prediction, in the order of time: "x rises, then y falls, 0.8 to 1.4".

        Channels that do the same at the same time are told together: "x and y rise, points 10 to 29"; what goes on
        after a pause is told once.
        """
        told = sorted((each for each in self.main if each.value > 0), key=lambda each: (each.start, each.end))
        if not told:
            return ""
        groups: list[list[Stretch]] = []
        for each in told:
            same = [own for own in groups if own[0].does == each.does and each.start < max(one.end for one in own)]
            if same and each.channel not in [one.channel for one in same[0]]:
                same[0].append(each)
            else:
                groups.append([each])
        text = _said(groups[0])
        groups = [own for before, own in itertools.pairwise([[], *groups]) if not before or _said(before) != _said(own)]
        for before, own in itertools.pairwise(groups):
            at_once = own[0].start < max(each.end for each in before)
            text += f"{' while' if at_once else ', then'} {_said(own)}"
        start, end = told[0].start, max(each.end for each in told)
        points = "" if self.timed or end == start else "points "
        return f"{text}, {points}{when(start, end)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SegmentContributions) and self.to_dict() == other.to_dict()

    __hash__ = None  # pyright: ignore[reportAssignmentType] - arrays have no hash

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        plain |= {name: value.tolist() for name, value in plain.items() if isinstance(value, np.ndarray)}
        return plain | {"channels": list(self.channels), "main": [asdict(each) for each in self.main]}

    def in_units(self, scale: float, shift: float) -> SegmentContributions:
        """Those of the number shift + scale * y, from these of y."""
        scaled = {name: scale * own for name in _SCALED if (own := getattr(self, name)) is not None}
        main = [
            replace(
                each,
                value=scale * each.value,
                error=scale * each.error,
                std=None if each.std is None else scale * each.std,
            )
            for each in self.main
        ]
        ends = {name: shift + scale * getattr(self, name) for name in ("latents", "baseline")}
        return replace(self, **scaled, **ends, main=main)


def _said(stretches: list[Stretch]) -> str:
    """What one or several channels do."""
    names = [each.channel for each in stretches]
    if len(names) == 1:
        return f"{names[0]} {stretches[0].does}"
    verb, *rest = stretches[0].does.split()
    plural = {"is": "are", "goes": "go"}.get(verb, verb.removesuffix("s"))
    return " ".join([", ".join(names[:-1]), "and", names[-1], plural, *rest])


def when(start: float, end: float) -> str:
    """A time or a stretch of time."""
    return f"{_time(start)} to {_time(end)}" if end > start else f"at {_time(start)}"


def _time(value: float) -> str:
    """Six digits, but more of late points and of time stamps such as seconds since 1970, which differ in the last."""
    return f"{value:g}" if abs(value) < 1e5 else f"{value:.12g}"
