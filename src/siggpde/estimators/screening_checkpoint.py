"""The result of a screening in a file, so that an interrupted fit is resumed with the same settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from siggpde.gp.leave_one_out import LeaveOneOut
from siggpde.paths import PathTransform
from siggpde.selection.candidates import candidate_from_settings
from siggpde.selection.screening import Screening
from siggpde.training.checkpoint import write_whole

_FORMAT = 1


def write_screening(path: Path, screening: Screening, fingerprint: str) -> None:
    """Writes the screening, whole or not at all; `fingerprint` is that of its data and settings."""
    results = [_state(result) for result in (screening, *screening.others)]
    state = {"format": _FORMAT, "fingerprint": fingerprint, "found": results}
    state |= {"report": screening.report, "seconds": screening.seconds}
    write_whole(path, state)


def read_screening(path: Path, fingerprint: str) -> dict[str, Any]:
    """Reads the state without executing anything; a ValueError for other data or settings, or a damaged file."""
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
        known = state["format"] == _FORMAT
    except Exception as error:
        raise ValueError(
            f"{path} is not a readable checkpoint ({type(error).__name__}); start without resume"
        ) from error
    if not known:
        raise ValueError(f"{path}: format {state['format']!r} is not the one of this version; start without resume")
    if state["fingerprint"] != fingerprint:
        raise ValueError(
            f"{path} was made with other series, targets or settings; give the same ones, or start without resume"
        )
    return state


def as_screening(state: dict[str, Any]) -> Screening:
    """The screening of a state that `read_screening` returned."""
    best, *others = [_from_state(result, state["report"], state["seconds"]) for result in state["found"]]
    best.others = others
    return best


def _state(screening: Screening) -> dict[str, Any]:
    return {
        "candidate": asdict(screening.candidate),
        "transform": screening.transform.state(),
        "theta": screening.theta,
        "words": [list(word) for word in screening.words],
        "result": dict(screening.result.__dict__),
        "classes": screening.classes,
        "y_scale": screening.y_scale,
        "series": screening.series,
    }


def _from_state(state: dict[str, Any], report: list[dict[str, Any]], seconds: float) -> Screening:
    return Screening(
        candidate_from_settings(state["candidate"]),
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
