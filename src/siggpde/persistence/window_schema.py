"""The schema of statistics over windows: of the views "windows" and "spectrum", and of scalers of features."""

from __future__ import annotations

from typing import Any

from siggpde.numerics.windows import LIFTS, MAX_DEPTH
from siggpde.numerics.words import count_up_to
from siggpde.persistence.schema import RAW, Fields, Flag, Integer, ListOf, MapOf, Maybe, Number, OneOf, Place
from siggpde.persistence.tensor_schema import EITHER, Array, integers

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
    """That features, scaler and centring belong to the same views."""
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
