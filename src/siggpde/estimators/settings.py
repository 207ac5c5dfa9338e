"""The settings of an estimator, checked when `fit` is called, and what a fit takes of them."""

import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from siggpde.gp import LikelihoodName
from siggpde.numerics import inputs
from siggpde.numerics.core import limited
from siggpde.series import PathOptions, Preparation, SeriesBatch, Spectrogram
from siggpde.views import TransformerView, View
from siggpde.views.facts import Fact
from siggpde.views.kinds import KINDS

log = logging.getLogger(__name__)
Kind = TypeVar("Kind")
_LARGEST = 1e300
LARGEST_SQUARED = 1e150
_UNNAMED = re.compile(r"channel \d+|time")  # what channels without names are called
NEED_SERIES = ("kernel", "lifted")
"""The kinds of views that have no finite features, and need the landmark series to predict."""
METHODS = ("views", "paper")
RELATED = ("group", "ignore", "error")
DEFAULT_FEATURES = {"views": 2000, "paper": 500}
DEFAULT_ITERATIONS = 5000
PAPER_DEFAULTS: dict[str, Any] = {
    "batch_size": 50, "learning_rate": 1e-3, "evaluate_every": 0, "validation": 0.2, "theta": None
}  # fmt: skip
"""What "auto" is of the settings of training that only method="paper" has."""
Validation = float | tuple[Sequence[int], Sequence[int]]
STORED_ATTRIBUTES = (
    "channel_names_", "n_channels_", "length_range_", "fingerprint_", "n_series_", "n_groups_", "n_iter_",
    "n_features_in_", "seconds_", "summary_", "tried_", "facts_", "reading_", "target_shift_", "target_scale_",
)  # fmt: skip
"""What a saved estimator has in addition to its settings, preparation and committee."""
DTYPES = {"auto": None, "float32": torch.float32, "float64": torch.float64}


def seed_of(random_state: Any) -> int:
    """Returns a seed: 0 for None, so that runs can be repeated, an integer as it is, or one drawn from a generator."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, int | np.integer) and 0 <= random_state < 2**63 and not isinstance(random_state, bool):
        return int(random_state)
    raise ValueError(f"random_state must be None, an integer from 0 or a numpy generator, got {random_state!r}")


def at_least(name: str, value: Any, minimum: int, automatic: int | None = None) -> int:
    """The value, an integer of Python or numpy that is not below the minimum; for "auto" `automatic`, if given."""
    if automatic is not None and isinstance(value, str) and value == "auto":
        return automatic
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        auto = "" if automatic is None else "'auto' or "
        raise ValueError(f"{name} must be {auto}an integer of at least {minimum}, got {value!r}")
    return int(value)


def folder_of(estimator: Any, name: str) -> Path:
    """The path of a folder that need not exist; a file is refused here and not after hours of a fit."""
    given = getattr(estimator, name)
    if not isinstance(given, str | os.PathLike):
        raise ValueError(f"{name} must be the path of a folder or None, got {given!r}")
    path = Path(given)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{name} must be a folder, but {path} is a file; give another path")
    return path


def from_fields(name: str, kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """Makes a dataclass of a dictionary of its fields; a ValueError names a key that is not a field."""
    known = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType] - they are dataclasses
    unknown = [key for key in values if key not in known]
    if unknown:
        raise ValueError(f"{name} has no field {unknown[0]!r}; its fields are {', '.join(known)}")
    return kind(**values)


_FIX = "take device='cpu', or 'cuda' or 'cuda:1' where there are such"


def input_device(X: Any) -> torch.device:
    """The device of the series X, with a warning where they have to be copied to the CPU to be checked and filled."""
    first = X[0] if isinstance(X, list | tuple) and X else X
    device = first.device if isinstance(first, Tensor) else torch.device("cpu")
    if device.type != "cpu":
        log.warning("X is on %s and is copied to the CPU, where series are checked and filled", device)
    return device


def usable_device(device: Any) -> torch.device:
    """The device of a name, with its index; under `torchrun` "cuda" is that of LOCAL_RANK. It must have float64."""
    if not isinstance(device, str | torch.device):
        raise ValueError(
            f"device must be 'auto' or a device of torch such as 'cpu', 'cuda' or 'cuda:1', got {device!r}"
        )
    if str(device) == "cuda" and torch.cuda.is_available() and os.environ.get("LOCAL_RANK"):
        device = f"cuda:{os.environ['LOCAL_RANK']}"  # of several processes on a machine each has its own GPU
    try:
        torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device={str(device)!r} cannot be used: torch has none of that name; {_FIX}") from error
    try:
        tried = torch.zeros(1, dtype=torch.float64, device=device)
        tried.item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        without_cuda = str(device).startswith("cuda") and not torch.cuda.is_available()
        why = "torch sees no CUDA device" if without_cuda else str(error).splitlines()[0]
        raise ValueError(f"device={str(device)!r} cannot be used: {why}; {_FIX}") from error
    return tried.device


def threads(n_jobs: int | None, series: int | None = None) -> AbstractContextManager[None]:
    """Runs a block with the number of threads of `n_jobs`, of which torch has one where there are few series."""
    return limited(inputs.thread_count(n_jobs), series)


def channel_attributes(X: Any, channels: int, names: Any) -> dict[str, Any]:
    """The fitted attributes that describe the channels of X, after checking the setting `channel_names`, `names`."""
    if names is None and is_series_data(X):
        names = X.channel_names
    elif names is None:
        names = list(map("channel {}".format, range(channels)))
    if isinstance(names, str | bytes) or not hasattr(names, "__len__"):
        raise ValueError(f"channel_names must be a list of names, got {names!r}")
    if len(names) != channels:
        raise ValueError(f"channel_names has {len(names)} names, but the series have {channels} channels")
    attributes: dict[str, Any] = {"n_channels_": channels, "channel_names_": tuple(map(str, names))}
    if isinstance(X, np.ndarray) and X.ndim == 2:
        attributes["n_features_in_"] = X.shape[1]
    return attributes


def check_batch(batch: SeriesBatch, targets: int | None = None, largest: float = _LARGEST) -> None:
    """Raises ValueError for values too large to be summed, or squared, or for another number of series than targets."""
    low, high = batch.values.aminmax()
    if not (low >= -largest and high <= largest):
        series, point, channel = (batch.values.abs() > largest).nonzero()[0].tolist()
        raise ValueError(
            f"series {series} of X has {batch.values[series, point, channel].item():.3g} in channel {channel}, which "
            f"is too large for sums (the most is {largest:.0e}); rescale the channel, or put NaN where it is missing"
        )
    if targets is not None and targets != len(batch):
        raise ValueError(f"X has {len(batch)} series but y has {targets} targets; give one target a series")


@dataclass(frozen=True)
class FitSettings:
    """The checked settings of a fit."""

    likelihood: str
    members: int | None
    n_features: int
    options: PathOptions | None
    class_weight: tuple[float, ...] | None
    max_iter: int
    time_limit: float | None
    seed: int
    dtype: torch.dtype | None
    progress: bool | None
    checkpoint: Path | None
    resume: bool
    cache_dir: Path | None = None
    views: tuple[tuple[str, ...], tuple[View, ...]] = (KINDS, ())
    keep_series: bool = True
    batch_size: int = 50
    learning_rate: float = 1e-3
    evaluate_every: int = 0
    validation: Validation = 0.2
    theta: Tensor | None = None
    facts: tuple[Fact, ...] = ()
    related: str = "group"
    exact: int = 0


def fit_settings(estimator: Any, classes: int | None, class_weight: tuple[float, ...] | None) -> FitSettings:
    """The settings of an estimator for this number of classes, None for numbers; a ValueError says which is wrong."""
    likelihood, dtype, members = estimator.likelihood, estimator.dtype, estimator.members
    method, limit = estimator.method, estimator.time_limit
    for name, among in (
        ("likelihood", estimator.likelihoods), ("dtype", DTYPES), ("method", METHODS), ("related", RELATED)
    ):  # fmt: skip
        value = getattr(estimator, name)
        if not isinstance(value, str) or value not in among:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, among))}, got {value!r}")
    if likelihood == "bernoulli" and classes != 2:
        raise ValueError(f"likelihood='bernoulli' is for two classes, y has {classes}; take 'softmax'")
    if estimator.resume and estimator.checkpoint is None:
        raise ValueError("resume=True needs the folder to go on from: give checkpoint=")
    if not isinstance(estimator.keep_series, bool | np.bool_):
        raise ValueError(f"keep_series must be True or False, got {estimator.keep_series!r}")
    keep_series = bool(estimator.keep_series)
    if limit is not None and not (_is_number(limit) and limit > 0):
        raise ValueError(f"time_limit must be a positive number of seconds or None, got {limit!r}")
    training: dict[str, Any] = {}
    if method == "paper":
        training = _paper_training(estimator)
    elif not LikelihoodName(likelihood).closed_form:
        raise ValueError(
            f"likelihood={likelihood!r} has no closed form, which method='views' needs: take method='paper', which "
            "trains it (as siggpde.SignatureGP with siggpde.fit does), or likelihood='auto'"
        )
    for name in () if method == "paper" else PAPER_DEFAULTS:
        value = getattr(estimator, name)
        if not isinstance(value, str) or value != "auto":
            raise ValueError(
                f"{name}={value!r} is for method='paper', which is trained in steps; method='views' is a closed form: "
                f"leave {name} at 'auto', or take method='paper'"
            )
    options = estimator.transforms
    if isinstance(options, Mapping):
        options = from_fields("transforms", PathOptions, options)
    elif not isinstance(options, PathOptions) and not (isinstance(options, str) and options == "auto"):
        raise ValueError(f"transforms must be 'auto', a PathOptions or a dictionary of its fields, got {options!r}")
    return FitSettings(
        likelihood=likelihood,
        members=None if isinstance(members, str) and members == "auto" else at_least("members", members, 1),
        n_features=at_least("n_features", estimator.n_features, 2, DEFAULT_FEATURES[method]),
        options=None if isinstance(options, str) else options,
        class_weight=class_weight,
        max_iter=at_least("max_iter", estimator.max_iter, 1, DEFAULT_ITERATIONS),
        time_limit=None if limit is None else float(limit),
        seed=seed_of(estimator.random_state),
        dtype=DTYPES[dtype],
        progress=None if estimator.verbose else False,
        checkpoint=None if estimator.checkpoint is None else folder_of(estimator, "checkpoint"),
        resume=bool(estimator.resume),
        cache_dir=None if estimator.cache_dir is None else folder_of(estimator, "cache_dir"),
        views=chosen_views(estimator.views, keep_series),
        keep_series=keep_series,
        related=estimator.related,
        exact=at_least("exact", estimator.exact, 0),
        **training,
    )


def _paper_training(estimator: Any) -> dict[str, Any]:
    """The checked settings of `PAPER_DEFAULTS`, after those that method="paper" does not have are refused."""
    members = estimator.members
    if isinstance(members, bool) or members not in ("auto", 1):
        raise ValueError(
            f"method='paper' trains one model, got members={members!r}; leave members at 'auto', or average several "
            "models with method='views'"
        )
    if estimator.likelihood == "least_squares":
        raise ValueError(
            "likelihood='least_squares' is a closed form, for method='views'; method='paper' takes 'auto', 'robustmax' "
            "or 'softmax', or for two classes 'bernoulli'"
        )
    given: dict[str, Any] = {}
    for name, default in PAPER_DEFAULTS.items():
        value = getattr(estimator, name)
        given[name] = default if isinstance(value, str) and value == "auto" else value
    rate, validation, theta = given["learning_rate"], given["validation"], given["theta"]
    if not (_is_number(rate) and 0 < rate < math.inf):
        raise ValueError(f"learning_rate must be 'auto' or a positive number, got {rate!r}")
    pair = hasattr(validation, "__len__") and len(validation) == 2
    if not pair and not (_is_number(validation) and 0 <= validation < 1):
        raise ValueError(
            "validation must be 'auto', a share of the series from 0 up to 1, or a pair of lists of row numbers, for "
            f"training and for validation, got {validation!r}"
        )
    if theta is not None:
        scales = np.atleast_1d(theta)
        if not (scales.dtype.kind in "fiu" and scales.ndim == 1 and (scales > 0).all()):
            raise ValueError(
                f"theta must be 'auto', a positive number or one for each channel of a path, got {theta!r}"
            )
        given["theta"] = torch.from_numpy(scales.astype(float))
    return given | {
        "batch_size": at_least("batch_size", estimator.batch_size, 1, PAPER_DEFAULTS["batch_size"]),
        "evaluate_every": at_least("evaluate_every", estimator.evaluate_every, 1, PAPER_DEFAULTS["evaluate_every"]),
        "learning_rate": float(rate),
        "validation": tuple(validation) if pair else float(validation),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_series_data(X: Any) -> bool:
    """Returns whether X is a `siggpde.io.SeriesData`, a class of a higher layer."""
    return all(map(partial(hasattr, X), ("X", "channel_names", "time_channel", "sample_weight")))


def or_of_data(X: Any, **given: Any) -> list[Any]:
    """Returns what was given beside X, by the names in `SeriesData`; what was not is taken from X, if it is one."""
    if not is_series_data(X):
        return list(given.values())
    return [getattr(X, name) if value is None else value for name, value in given.items()]


def check_channels(estimator: Any, X: Any) -> None:
    """Raises a ValueError for a `SeriesData` of other channels than those of the fit, or in another order."""
    time, names, wanted = estimator.preparation_.time_channel, tuple(X.channel_names), estimator.channel_names_
    if (X.time_channel is None) != (time is None):
        no, was = ("no ", "was") if X.time_channel is None else ("", "was not")
        raise ValueError(f"the series have {no}time stamps, but the model {was} fitted with them; read them as for fit")
    unnamed = any(all(map(_UNNAMED.fullmatch, some)) for some in (names, wanted))
    if len(names) != len(wanted) or (names != wanted and not unnamed):
        raise ValueError(
            f"the series have the channels {', '.join(names)}, but the model was fitted with {', '.join(wanted)}; give "
            "the same ones in the same order"
        )


def preparation_of(estimator: Any, X: Any) -> Preparation:
    """Returns the preparation that makes series of X, to be fitted; a `SeriesData` says which channel is the time."""
    spectrogram, time = estimator.spectrogram, estimator.time_channel
    if isinstance(spectrogram, Mapping):
        spectrogram = from_fields("spectrogram", Spectrogram, spectrogram)
    return Preparation(
        time_channel=X.time_channel if time is None and is_series_data(X) else time,
        mask=estimator.mask,
        max_points=estimator.max_points,
        spectrogram=spectrogram,
    )


def chosen_views(views: Any, keep_series: bool = True) -> tuple[tuple[str, ...], tuple[View, ...]]:
    """The setting `views` checked: kinds of our own views, but those that need series that are not kept, and others."""
    listed = [views] if isinstance(views, str) else views
    if not isinstance(listed, Sequence) or not listed:
        raise ValueError(f"views must be 'auto' or a list of some of {', '.join(KINDS)}, got {views!r}")
    available = KINDS if keep_series else tuple(kind for kind in KINDS if kind not in NEED_SERIES)
    kinds: list[str] = []
    transformers: dict[str, View] = {}
    for view in listed:
        if isinstance(view, str) and view in NEED_SERIES and not keep_series:
            raise ValueError(
                f"the view {view!r} predicts by comparing with training series, which keep_series=False leaves out: "
                "take it from views, or keep_series=True"
            )
        if isinstance(view, str) and view in ("auto", *KINDS):
            kinds += available if view == "auto" else [view]
        elif isinstance(view, tuple) and len(view) == 2 and isinstance(view[0], str):
            name, transformer = view
            if name in ("auto", *KINDS) or not name or name in transformers:
                raise ValueError(f"a view of your own needs a name of its own, got {name!r}")
            for wanted in ("fit", "transform"):
                if not callable(getattr(transformer, wanted, None)):
                    raise ValueError(f"the transformer of the view {name!r} has no method {wanted}: {transformer!r}")
            transformers[name] = TransformerView(name, transformer)
        else:
            raise ValueError(
                f"views has {view!r}; it takes 'auto', {', '.join(map(repr, KINDS))} and pairs (name, transformer)"
            )
    return tuple(dict.fromkeys(kinds)), tuple(transformers.values())
