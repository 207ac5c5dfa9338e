"""The schema of the blocks of views: one for every kind of view."""

from __future__ import annotations

from typing import Any

from siggpde.numerics.words import count_up_to
from siggpde.persistence.schema import (
    RAW,
    ByKind,
    Fields,
    Flag,
    Integer,
    Items,
    ListOf,
    MapOf,
    Maybe,
    Number,
    OneOf,
    Place,
    Schema,
    Text,
)
from siggpde.persistence.tensor_schema import Array, integers
from siggpde.persistence.window_schema import CHANNELS, SCALER, SPREAD, WINDOWS
from siggpde.series import PathOptions

_MAX_DEPTH, _MOST_WORDS = 10, 10**6
_POINTS = Integer(1, 10**9)  # to which longer series are averaged down

PATH_OPTIONS = Fields(
    {
        "time": Flag(),
        "base_point": Flag(),
        "append": OneOf(("none", "variation", "arc")),
        "lead_lag": Flag(),
        "difference": Integer(0, 5),
    }
)


def transform(spread: float = SPREAD, largest: float = 1e15) -> Fields:
    """Of a `PathTransform` of series of "channels", whose spreads are at least `spread`."""
    return Fields(
        {
            "options": PATH_OPTIONS,
            "mean": ListOf(Number(-largest, largest), size="channels"),
            "spread": ListOf(Number(spread, largest), size="channels"),
            "appended_spread": Maybe(ListOf(Number(above=0), least=1)),
            "duration": Maybe(Number(high=RAW, above=0)),
        },
        also=_appended,
    )


def _appended(state: Any, at: Place) -> str | None:
    append, spreads = state["options"]["append"], state["appended_spread"]
    wanted = {"none": None, "variation": len(state["mean"]), "arc": 1}[append]
    found = None if spreads is None else len(spreads)
    return None if found == wanted else f"has appended_spread of {found} channels, but appends {append!r}"


def path_channels(state: Any) -> int:
    """Of the paths that the transform with this state makes."""
    return PathOptions(**state["options"]).channels(len(state["mean"]))


def _theta(block: Any, at: Place) -> str | None:
    wanted, found = path_channels(block["transform"]), len(block["theta"])
    return None if wanted == found else f"has theta for {found} channels, but paths of {wanted}"


def _words(block: Any, at: Place) -> str | None:
    """That the words of paths, in whole levels (`views.paths`), are not too many, before they are made."""
    levels = [count_up_to(len(block["theta"]), depth) for depth in range(1, _MAX_DEPTH + 1)]
    count = max([levels[0], *(level for level in levels if level <= block["view"]["words"])])
    if block["view"]["degree"] is not None:  # of these, some
        count = min(block["view"]["words"], levels[-1])
    return f"has {count} words of paths, of which {_MOST_WORDS} are the most" if count > _MOST_WORDS else None


_PATH = Fields(
    {
        "view": Fields(
            {
                "name": Text(),
                "options": PATH_OPTIONS,
                "degree": Maybe(Integer(1, 10)),
                "words": Integer(1),
                "time_scale": Number(above=0),
                "path_length": Number(above=0),
                "max_points": _POINTS,
            }
        ),
        "transform": transform(),
        "theta": Array(None),
    },
    also=lambda block, at: _theta(block, at) or _words(block, at),
)

_KERNEL = Fields(
    {
        "view": Fields(
            {
                "name": Text(),
                "base_point": Flag(),
                "bandwidth": Maybe(Number(1e-9, 1e9)),
                "time_weight": Number(0),
                "path_length": Number(above=0),
                "max_points": Integer(1, 256),
                "max_pivots": Integer(1, 10**5),
            }
        ),
        "transform": transform(),
        # The work grows with the square of the length of paths, which is `path_length` in the median.
        "theta": Array(None, low=-1e3, high=1e3),
        "scales": Items((Number(1e-12, 1e12), Number(1e-12, 100))),
        "pivots": Maybe(integers("pivots")),
        "factor": Maybe(Array("pivots", "pivots")),
        "precise": Flag(),
    },
    own=("pivots",),
    also=lambda block, at: _theta(block, at) or _pivots(block, at),
)


def _pivots(block: Any, at: Place) -> str | None:
    pivots, factor = block["pivots"], block["factor"]
    if (pivots is None) != (factor is None):
        return "has pivots without their factor, or a factor without its pivots"
    if pivots is None:
        return None
    if not len(pivots) or int(pivots.max()) >= (at.known("landmarks") or 0):
        return f"has pivots that are not among the {at.known('landmarks')} landmarks"
    if not bool((factor.diagonal() > 1e-12).all()):
        return "has a factor with a diagonal that is not positive"
    return None


def _example(block: Any, at: Place) -> str | None:
    kept, example = block["scaler"][0]["kept"], block["example"]
    if example["length"] * example["channels"] > 10**7:
        return f"has an example of {example['length']} points and {example['channels']} channels, which is too large"
    if len(kept) and int(kept.max()) >= len(example["features"]):
        return f"keeps feature {int(kept.max())} of {len(example['features'])}"
    return None


_FEATURES = Fields(
    {
        "name": Text(),
        "scaler": ListOf(SCALER, size=1),
        "example": Fields(
            {
                "length": Integer(1, 10**7),
                "channels": CHANNELS,
                "ragged": Flag(),
                "features": Array(None, low=-RAW, high=RAW),
            }
        ),
    },
    also=_example,
)

_STATES: dict[str, Schema] = {
    "linear": _PATH, "path": _PATH, "kernel": _KERNEL, "lifted": _KERNEL, "windows": WINDOWS, "spectrum": WINDOWS,
    "features": _FEATURES,
}  # fmt: skip
_CENTRING = Fields({"columns": Array("landmarks"), "mean": Number(), "scale": Number(0)})


def kernels_of(block: Any) -> set[str]:
    """The names of the kernels of a block with this state."""
    kind, state = block["kind"], block["state"]
    if kind == "features":
        return {state["name"]}
    if kind not in ("windows", "spectrum"):
        return {state["view"]["name"]}
    lifts = ["spectrum" if kind == "spectrum" else each["view"]["lift"] for each in state["features"]["views"]]
    return {f"{lift}{end}" for lift in lifts for end in "13"}


def _consistent(block: Any, at: Place) -> str | None:
    kind, state = block["kind"], block["state"]
    wanted, found = kernels_of(block), set(block["centring"])
    if wanted != found:
        return f"has the kernels {', '.join(sorted(wanted))[:100]}, but centring of {', '.join(sorted(found))[:100]}"
    told = {
        "linear": lambda: state["view"]["degree"] == 1,
        "path": lambda: state["view"]["degree"] != 1,
        "kernel": lambda: state["view"]["bandwidth"] is None,
        "lifted": lambda: state["view"]["bandwidth"] is not None,
        "windows": lambda: state["view"]["bins"] is None,
        "spectrum": lambda: state["view"]["bins"] is not None,
    }
    return None if kind not in told or told[kind]() else f"is not of the kind {kind!r} by its settings"


def blocks(centred: bool, kinds: tuple[str, ...] = tuple(_STATES)) -> ListOf:
    """Of all blocks of a committee, with the centring of their kernels or without it."""
    centring = MapOf(_CENTRING if centred else Maybe(Fields({})))
    each = {
        kind: Fields({"kind": Text(), "state": _STATES[kind], "centring": centring}, also=_consistent) for kind in kinds
    }
    return ListOf(ByKind("kind", each), least=1, most=10**4)
