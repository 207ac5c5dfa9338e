"""The schemas of committees: blocks of views of every kind, likelihoods, members, links, and how new a series is.

Sizes are bounded before anything of that size is made: `classes` has to be that of the labels, and quadrature points
are few.
"""

from __future__ import annotations

from typing import Any

import torch

from siggpde.numerics.windows import LIFTS, MAX_DEPTH
from siggpde.numerics.words import count_up_to
from siggpde.persistence.schema import (
    EITHER,
    RAW,
    SINGLE,
    Absent,
    Entries,
    Place,
    Schema,
    array,
    by_kind,
    fields,
    flag,
    integer,
    integers,
    items,
    list_of,
    map_of,
    maybe,
    number,
    one_of,
    size,
    text,
)  # fmt: skip
from siggpde.series import PathOptions

CHANNELS = integer(1, 10**6)
SPREAD = 1e-30
"""The smallest spread of a channel of standardised series."""

_WINDOW_SETTINGS = fields(
    {
        "lifts": list_of(one_of(*LIFTS), least=1, most=len(LIFTS)),
        "points": integer(3, 1000),
        "max_dilations": integer(1, 100),
        "max_windows": integer(1, 10**5),
        "max_channels": integer(2, 10**6),
        "thresholds": integer(0, 1000),
        "path_length": number(above=0),
        "seed": integer(0, 2**63 - 1),
    }
)
SCALER = fields(
    {"kept": integers("features"), "mean": array("features", low=-RAW, high=RAW, dtypes=EITHER),
     "spread": array("features", above=0, high=RAW, dtypes=EITHER)},
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


_WINDOW_VIEW = fields(
    {
        "view": fields(
            {
                "channels": CHANNELS,
                "groups": list_of(list_of(integer(0, 10**6), least=1, most=1000), least=1, most=10**5),
                "points": integer(2, 1000),
                "depth": integer(1, MAX_DEPTH),
                "dilation": integer(1, 2**12),
                "smoothing": integer(1, 2**12),
                "lift": one_of(*LIFTS),
                "base_point": flag,
                "max_windows": integer(1, 10**5),
            }
        ),
        "path_scales": array("groups", above=0),
        "thresholds": array("thresholds", "columns"),
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


WINDOWS = fields(
    {
        "view": fields({"settings": _WINDOW_SETTINGS, "bins": maybe(integer(1, 4096))}),
        "features": fields(
            {
                "settings": _WINDOW_SETTINGS,
                "mean": array("channels"),
                "spread": array("channels", low=SPREAD),
                "lift_scales": map_of(array("channels", low=SPREAD)),
                "views": list_of(_WINDOW_VIEW, least=1, most=10**4),
            }
        ),
        "scaler": list_of(SCALER),
    },
    own=("thresholds",),
    also=_statistics,
)


_MAX_DEPTH, _MOST_WORDS = 10, 10**6
_POINTS = integer(1, 10**9)  # to which longer series are averaged down

PATH_OPTIONS = fields(
    {
        "time": flag,
        "base_point": flag,
        "append": one_of("none", "variation", "arc"),
        "lead_lag": flag,
        "difference": integer(0, 5),
    }
)


def transform(spread: float = SPREAD, largest: float = 1e15) -> Schema:
    """Of a `PathTransform` of series of "channels", whose spreads are at least `spread`."""
    return fields(
        {
            "options": PATH_OPTIONS,
            "mean": list_of(number(-largest, largest), size="channels"),
            "spread": list_of(number(spread, largest), size="channels"),
            "appended_spread": maybe(list_of(number(above=0), least=1)),
            "duration": maybe(number(high=RAW, above=0)),
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


_PATH = fields(
    {
        "view": fields(
            {
                "name": text,
                "options": PATH_OPTIONS,
                "degree": maybe(integer(1, 10)),
                "words": integer(1),
                "time_scale": number(above=0),
                "path_length": number(above=0),
                "max_points": _POINTS,
            }
        ),
        "transform": transform(),
        "theta": array(None),
    },
    also=lambda block, at: _theta(block, at) or _words(block, at),
)

_KERNEL = fields(
    {
        "view": fields(
            {
                "name": text,
                "base_point": flag,
                "bandwidth": maybe(number(1e-9, 1e9)),
                "time_weight": number(0),
                "path_length": number(above=0),
                "max_points": integer(1, 256),
                "max_pivots": integer(1, 10**5),
            }
        ),
        "transform": transform(),
        # The work grows with the square of the length of paths, which is `path_length` in the median.
        "theta": array(None, low=-1e3, high=1e3),
        "scales": items(number(1e-12, 1e12), number(1e-12, 100)),
        "pivots": maybe(integers("pivots")),
        "factor": maybe(array("pivots", "pivots")),
        "precise": flag,
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


_FEATURES = fields(
    {
        "name": text,
        "scaler": list_of(SCALER, size=1),
        "example": fields(
            {
                "length": integer(1, 10**7),
                "channels": CHANNELS,
                "ragged": flag,
                "features": array(None, low=-RAW, high=RAW),
            }
        ),
    },
    also=_example,
)

_STATES: dict[str, Schema] = {
    "linear": _PATH, "path": _PATH, "kernel": _KERNEL, "lifted": _KERNEL, "windows": WINDOWS, "spectrum": WINDOWS,
    "features": _FEATURES,
}  # fmt: skip
_CENTRING = fields({"columns": array("landmarks"), "mean": number(), "scale": number(0)})


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


def blocks(centred: bool, kinds: tuple[str, ...] = tuple(_STATES)) -> Schema:
    """Returns the schema of all blocks of a committee, with the centring of their kernels or without it."""
    centring = map_of(_CENTRING if centred else maybe(fields({})))
    each = {
        kind: fields({"kind": text, "state": _STATES[kind], "centring": centring}, also=_consistent) for kind in kinds
    }
    return list_of(by_kind("kind", each), least=1, most=10**4)


LOGARITHM = 100.0
"""The largest logarithm, up or down, of a scale, noise or amplitude: of standardised series all are far from it."""

_SMALLEST, _LARGEST = 1e-40, 1e40
_POINTS = integer(1, 2**14)
_SEED = Absent(integer(0, 2**63))
_POSITIVE = number(_SMALLEST, _LARGEST)
_CLASS_WEIGHT = Absent(maybe(list_of(number(above=0), size="classes")))


def _named(entries: dict[str, Schema | Absent]) -> Schema:
    return fields({"name": text, **entries})


LIKELIHOOD = by_kind(
    "name",
    {
        "softmax": _named(
            {
                "classes": size("classes"),
                "points": Absent(_POINTS),
                "predict_points": Absent(_POINTS),
                "class_weight": _CLASS_WEIGHT,
                "seed": _SEED,
            }
        ),
        "robustmax": _named({"classes": size("classes"), "eps": number(1e-12, 0.999), "class_weight": _CLASS_WEIGHT}),
        "bernoulli": _named({"link": one_of("probit", "logit"), "class_weight": _CLASS_WEIGHT}),
        "gaussian": _named({"noise": _POSITIVE}),
        "student_t": _named({"scale": _POSITIVE, "df": number(1e-3, 1e9), "learn_df": flag}),
        "poisson": _named({"offset": number(-LOGARITHM, LOGARITHM)}),
    },
)


_LOGARITHM = Absent(array(low=-LOGARITHM, high=LOGARITHM))
PARAMETERS: Entries = {
    "likelihood.log_noise": _LOGARITHM,
    "likelihood.log_scale": _LOGARITHM,
    "likelihood.log_df": _LOGARITHM,
}
"""The tensors of likelihoods in the state of a model."""


_MOST_CLASSES = 10**6

_FACTS = fields(  # in units of the user's
    {
        "medians": array("facts", low=-RAW, high=RAW),
        "units": array("facts", above=0, high=RAW),
        "low": array("facts", low=-RAW, high=RAW),
        "high": array("facts", low=-RAW, high=RAW),
        "least": array("facts", low=0, high=RAW),
        "reference": array("references", "facts", dtypes=SINGLE),
        "middle": number(-RAW, RAW),
        "upper": number(-RAW, RAW),
    }
)
NOVELTY = fields(
    {
        "weights": array("members", low=0, high=1),
        "centres": array("members"),
        "widths": array("members", above=0),
        "middle": number(),
        "upper": number(),
        "facts": _FACTS,
        "left_out": array("members", "known", dtypes=SINGLE),
        "left_out_facts": array("known"),
        "labels": maybe(integers("known", high=_MOST_CLASSES)),
    }
)


_FURTHEST = 1e5  # of standardised series (`views.base`)


def _lengths(state: Any, at: Place) -> str | None:
    if not len(state["values"]) or not state["values"].shape[1]:
        return "has no series, or series without points"
    lengths, points = state["lengths"], state["values"].shape[1]
    return None if lengths is None or int(lengths.max()) <= points else f"has lengths beyond its {points} points"


def _frequencies(link: Any, at: Place) -> str | None:
    frequencies = link.get("frequencies")
    wrong = frequencies is not None and abs(float(frequencies.sum()) - 1) > 1e-4
    return "has frequencies of classes that do not sum to 1" if wrong else None


_STANDARD = fields({"mean": array("channels", low=-RAW, high=RAW), "spread": array("channels", above=0, high=RAW)})
_LANDMARKS = fields(
    {
        "values": array("landmarks", "points", "channels", low=-_FURTHEST, high=_FURTHEST, dtypes=SINGLE),
        "lengths": maybe(integers("landmarks", low=1)),
        "times": maybe(array("landmarks", "points", low=-RAW, high=RAW)),
    },
    also=_lengths,
)
_RECIPE = fields(
    {
        "name": text,
        "weights": list_of(items(text, number(1e-9, 1e9)), least=1, most=10**4),
        "power": integer(1, 16),
    }
)
_LINK = fields(
    {
        "mixing": array("outputs", "outputs"),
        "offset": array("outputs"),
        "usual_variance": number(),
        "lapse": number(0, 0.999),
        "frequencies": Absent(maybe(array("outputs", low=0, high=1))),
        "nothing": Absent(number(0, 1)),
    },
    also=_frequencies,
)
_LEFT_OUT = fields(
    {
        "y": array("series left out", low=-RAW, high=RAW, dtypes=(*EITHER, torch.int64)),
        "mean": array("series left out", "outputs"),
        "variance": array("series left out"),
        "variances": array("members", "series left out"),
        "groups": maybe(integers("series left out")),
        "exact": flag,
        "means": Absent(maybe(array("members", "series left out", "outputs", dtypes=SINGLE))),
    }
)
RECALIBRATION = fields({"degrees": number(2.01, 1e9), "scale": number(1e-6, 1e6)})
WEIGHTS = array("members", low=0, high=1)
"""Of members; they sum to 1 (`weights_sum`)."""
_NORMS = maybe(array("landmarks", low=0))
_VARIANCE = number(0, 1e30)

_MEMBER = fields(
    {
        "recipe": _RECIPE,
        "alpha": array("landmarks", "outputs"),
        "root": array("landmarks", "rank", dtypes=EITHER),
        "noise": _VARIANCE,
        "amplitude": _VARIANCE,
        "counts": Absent(maybe(array("landmarks", low=0))),
        "norms": _NORMS,
        "score": number(),
    },
    own=("rank",),
)
_PART = fields(
    {
        "coefficient": number(0),
        "weights": array("features", "outputs", dtypes=EITHER),
        "factor": array("features", "rank", dtypes=SINGLE),
    },
    own=("features",),
)
_WEIGHT_MEMBER = fields(
    {
        "recipe": _RECIPE,
        "parts": map_of(_PART),
        "constant": array("outputs"),
        "root": array("rank"),
        "noise": _VARIANCE,
        "amplitude": _VARIANCE,
        "score": number(),
    },
    own=("rank",),
)


def weights_sum(weights: Any) -> str | None:
    """What is wrong with the weights of members that were checked by `WEIGHTS`."""
    total = float(weights.double().sum())
    return None if abs(total - 1) < 1e-4 else f"has weights of members that sum to {total:g}, not to 1"


def _recipes(state: Any, at: Place) -> str | None:
    """That members are made of kernels that there are, and weights sum to 1."""
    known = set().union(*(kernels_of(block) for block in state["blocks"]))
    for member in state["members"]:
        recipe = member["recipe"]
        missing = {name for name, _ in recipe["weights"]} - known
        if missing:
            return f"has a member of the kernel {min(missing)[:100]!r}, which none of its blocks has"
        if recipe["power"] > 1 and member.get("norms") is None:
            return f"lacks the norms of the member {recipe['name'][:100]!r}, which has a power"
    return weights_sum(state["weights"])


def _with_landmarks(state: Any, at: Place) -> str | None:
    stamped = state["landmarks"]["times"] is not None
    for block in state["blocks"]:
        transform = block["state"].get("transform")
        if transform and transform["options"]["time"] and (transform["duration"] is not None) != stamped:
            return "has time stamps in some of its landmarks and blocks, but not in others"
    return _recipes(state, at)


def _outputs(state: Any, at: Place) -> str | None:
    outputs = at.known("outputs")
    return f"has {outputs} outputs but no link of classes" if state["link"] is None and outputs != 1 else None


def _parts(state: Any, at: Place) -> str | None:
    """That members without series have weights for parts that there are, and no powers."""
    widths = [len(centre) for centre in state["centres"]]
    for member in state["members"]:
        if member["recipe"]["power"] != 1:
            return "has a member with a power, which needs training series"
        for key, part in member["parts"].items():
            if not (key.isascii() and key.isdecimal() and len(key) < 9 and int(key) < len(widths)):
                return f"has weights for the part {key[:20]!r} of {len(widths)}"
            if len(part["weights"]) != widths[int(key)]:
                return f"has {len(part['weights'])} weights for the {widths[int(key)]} features of part {key}"
    return None


_ENDS: Entries = {
    "link": maybe(_LINK),
    "recalibration": maybe(RECALIBRATION),
    "left_out": Absent(maybe(_LEFT_OUT)),
    "novelty": Absent(maybe(NOVELTY)),
}

COMMITTEE = by_kind(
    "kind",
    {
        "views": fields(
            {
                "kind": text,
                "standard": _STANDARD,
                "landmarks": _LANDMARKS,
                "blocks": blocks(centred=True),
                "members": list_of(_MEMBER, size="members", least=1, most=10**4),
                "weights": WEIGHTS,
                **_ENDS,
                "class_weights": maybe(array("outputs", above=0)),
            },
            also=lambda state, at: _with_landmarks(state, at) or _outputs(state, at),
        ),
        "weights": fields(
            {
                "kind": text,
                "standard": _STANDARD,
                "blocks": blocks(centred=False, kinds=("linear", "path", "windows", "spectrum", "features")),
                "centres": list_of(array(None, low=-RAW, high=RAW)),
                "members": list_of(_WEIGHT_MEMBER, size="members", least=1, most=10**4),
                "weights": WEIGHTS,
                **_ENDS,
            },
            also=lambda state, at: _recipes(state, at) or _parts(state, at) or _outputs(state, at),
        ),
    },
)
