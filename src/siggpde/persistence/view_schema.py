"""The schema of the blocks of views: one for every kind of view, and of scalers of features."""

from __future__ import annotations

from typing import Any

from siggpde.numerics.windows import LIFTS, MAX_DEPTH
from siggpde.numerics.words import count_up_to
from siggpde.persistence.schema import (
    EITHER,
    RAW,
    Array,
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
    integers,
)
from siggpde.series import PathOptions

CHANNELS = Integer(1, 10**6)
SPREAD = 1e-30
"""The smallest spread of a channel of standardised series."""

_WINDOW_SETTINGS = Fields(
    {
        "lifts": ListOf(OneOf(LIFTS), least=1, most=len(LIFTS)),
        "points": Integer(3, 1000),
        "max_dilations": Integer(1, 100),
        "max_windows": Integer(1, 10**5),
        "max_channels": Integer(2, 10**6),
        "thresholds": Integer(0, 1000),
        "path_length": Number(above=0),
        "seed": Integer(0, 2**63 - 1),
    }
)
SCALER = Fields(
    {"kept": integers("features"), "mean": Array("features", low=-RAW, high=RAW, dtypes=EITHER),
     "spread": Array("features", above=0, high=RAW, dtypes=EITHER)},
    own=("features",),
)  # fmt: skip


def _columns(state: Any, at: Place) -> str | None:
    view = state["view"]
    if view["channels"] != at.known("channels"):
        return f"is of {view['channels']} channels, but the series have {at.known('channels')}"
    if len(view["groups"]) != at.known("groups"):
        return f"has {at.known('groups')} path_scales for {len(view['groups'])} groups"
    if any(channel >= view["channels"] for group in view["groups"] for channel in group):
        return "has a group with a channel that there is not"
    columns = sum(count_up_to(1 + len(group), view["depth"]) - view["depth"] - 1 for group in view["groups"])
    if columns != at.known("columns"):
        return f"has thresholds of {at.known('columns')} words, but windows with {columns}"
    return None


_WINDOW_VIEW = Fields(
    {
        "view": Fields(
            {
                "channels": CHANNELS,
                "groups": ListOf(ListOf(Integer(0, 10**6), least=1, most=1000), least=1, most=10**5),
                "points": Integer(2, 1000),
                "depth": Integer(1, MAX_DEPTH),
                "dilation": Integer(1, 2**12),
                "smoothing": Integer(1, 2**12),
                "lift": OneOf(LIFTS),
                "base_point": Flag(),
                "max_windows": Integer(1, 10**5),
            }
        ),
        "path_scales": Array("groups", above=0),
        "thresholds": Array("thresholds", "columns"),
    },
    own=("groups", "columns"),
    also=_columns,
)


def _statistics(block: Any, at: Place) -> str | None:
    """Checks that features, scaler and centring belong to the same views."""
    features, scaler = block["features"], block["scaler"]
    if len(scaler) != 2 * len(features["views"]):
        return f"has {len(scaler)} scalers for {len(features['views'])} views"
    count = features["settings"]["thresholds"]
    for index, kept in enumerate(each["kept"] for each in scaler):
        view = features["views"][index // 2]
        statistics = 3 * (1 + (count + 1) // 2) if index % 2 else 4 + count
        if len(view["thresholds"]) != count:
            return f"has {len(view['thresholds'])} thresholds in a view, but {count} in its settings"
        if view["view"]["lift"] not in features["lift_scales"]:
            return f"lacks the scale of the lift {view['view']['lift']!r}"
        if len(kept) and int(kept.max()) >= statistics * view["thresholds"].shape[1]:
            return f"keeps feature {int(kept.max())} of a view that has fewer"
    return None


WINDOWS = Fields(
    {
        "view": Fields({"settings": _WINDOW_SETTINGS, "bins": Maybe(Integer(1, 4096))}),
        "features": Fields(
            {
                "settings": _WINDOW_SETTINGS,
                "mean": Array("channels"),
                "spread": Array("channels", low=SPREAD),
                "lift_scales": MapOf(Array("channels", low=SPREAD)),
                "views": ListOf(_WINDOW_VIEW, least=1, most=10**4),
            },
        ),
        "scaler": ListOf(SCALER),
    },
    own=("thresholds",),
    also=_statistics,
)


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
    """Returns the schema of all blocks of a committee, with the centring of their kernels or without it."""
    centring = MapOf(_CENTRING if centred else Maybe(Fields({})))
    each = {
        kind: Fields({"kind": Text(), "state": _STATES[kind], "centring": centring}, also=_consistent) for kind in kinds
    }
    return ListOf(ByKind("kind", each), least=1, most=10**4)
