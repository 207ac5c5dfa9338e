"""What a screening found, in a file, so that an interrupted fit goes on with the same settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from siggpde.gp.leave_one_out import LeaveOneOut
from siggpde.paths import PathTransform
from siggpde.selection.candidates import as_candidate
from siggpde.selection.screening import Screening
from siggpde.training.checkpoint import write_whole

_FORMAT = 1


def write_screening(path: Path, found: Screening, mark: str) -> None:
    """Writes it whole or not at all; `mark` is the fingerprint of the data and settings it belongs to."""
    state = {"format": _FORMAT, "fingerprint": mark, "found": [_state(one) for one in (found, *found.others)]}
    state |= {"report": found.report, "seconds": found.seconds}
    write_whole(path, state)


def read_screening(path: Path, mark: str) -> dict[str, Any]:
    """Reads the state back, executing nothing; other data, settings or a damaged file are a ValueError."""
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
        known = state["format"] == _FORMAT
    except Exception as error:
        raise ValueError(
            f"{path} is not a readable checkpoint ({type(error).__name__}); start without resume"
        ) from error
    if not known:
        raise ValueError(f"{path}: format {state['format']!r} is not the one of this version; start without resume")
    if state["fingerprint"] != mark:
        raise ValueError(
            f"{path} was made with other series, targets or settings; give the same ones, or start without resume"
        )
    return state


def as_screening(state: dict[str, Any]) -> Screening:
    """The screening that was written."""
    best, *others = [_from_state(one, state["report"], state["seconds"]) for one in state["found"]]
    best.others = others
    return best


def _state(found: Screening) -> dict[str, Any]:
    return {
        "candidate": asdict(found.candidate),
        "transform": found.transform.state(),
        "theta": found.theta,
        "words": [list(word) for word in found.words],
        "result": dict(found.result.__dict__),
        "classes": found.classes,
        "y_scale": found.y_scale,
        "series": found.series,
    }


def _from_state(state: dict[str, Any], report: list[dict[str, Any]], seconds: float) -> Screening:
    return Screening(
        as_candidate(state["candidate"]),
        PathTransform.from_state(state["transform"]),
        state["theta"],
        [tuple(word) for word in state["words"]],
        LeaveOneOut(**state["result"]),
        state["classes"],
        report,
        seconds,
        state["y_scale"],
        state["series"],
    )
