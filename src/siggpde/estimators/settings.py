"""Checks of the estimators' settings; each returns the value as a fit takes it, or raises a ValueError."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from siggpde.series import PathOptions

Kind = TypeVar("Kind")
METHODS = ("views", "paper")
DEFAULT_FEATURES = {"views": 2000, "paper": 500}
DEFAULT_ITERATIONS = 5000
STORED_ATTRIBUTES = (
    "channel_names_",
    "n_channels_",
    "length_range_",
    "fingerprint_",
    "n_series_",
    "n_groups_",
    "n_iter_",
    "n_features_in_",
    "seconds_",
    "summary_",
    "tried_",
    "reading_",
    "target_shift_",
    "target_scale_",
)
"""What a saved estimator has beside its settings, preparation and committee."""
DTYPES = {"auto": None, "float32": torch.float32, "float64": torch.float64}


def seed_of(random_state: Any) -> int:
    """A seed: 0 for None (runs are reproducible unless told otherwise), or one drawn from a generator."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, int | np.integer) and 0 <= random_state < 2**63 and not isinstance(random_state, bool):
        return int(random_state)
    raise ValueError(f"random_state must be None, an integer from 0 or a numpy generator, got {random_state!r}")


def at_least(name: str, value: Any, minimum: int) -> int:
    """An integer of Python or numpy that is not below the minimum."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}")
    return int(value)


def auto_or_at_least(name: str, value: Any, minimum: int, automatic: int) -> int:
    """The same, with "auto" standing for `automatic`."""
    if isinstance(value, str) and value == "auto":
        return automatic
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name} must be 'auto' or an integer of at least {minimum}, got {value!r}")
    return int(value)


def time_limit(value: Any) -> float | None:
    """Seconds, or None for no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not value > 0:
        raise ValueError(f"time_limit must be a positive number of seconds or None, got {value!r}")
    return float(value)


def optional_folder(name: str, given: Any) -> Path | None:
    """A folder, which need not exist yet, or None; that it is a file is noticed here and not after hours of a fit."""
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        raise ValueError(f"{name} must be the path of a folder or None, got {given!r}")
    path = Path(given)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{name} must be a folder, but {path} is a file; give another path")
    return path


def method_of(value: Any) -> str:
    """The name of a method."""
    if not isinstance(value, str) or value not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {value!r}")
    return value


def path_options(transforms: PathOptions | Mapping[str, Any] | str) -> PathOptions | None:
    """The setting `transforms` as PathOptions; None for "auto", the choice of the method."""
    if isinstance(transforms, PathOptions):
        return transforms
    if isinstance(transforms, Mapping):
        return from_fields("transforms", PathOptions, transforms)
    if not isinstance(transforms, str) or transforms != "auto":
        raise ValueError(f"transforms must be 'auto', a PathOptions or a dictionary of its fields, got {transforms!r}")
    return None


def from_fields(name: str, kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """A dataclass from a dictionary of its fields; a ValueError names a key that is not a field."""
    known = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType] - they are dataclasses
    unknown = [key for key in values if key not in known]
    if unknown:
        raise ValueError(f"{name} has no field {unknown[0]!r}; its fields are {', '.join(known)}")
    return kind(**values)
