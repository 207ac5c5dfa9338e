"""The schemas of committees, of the settings of likelihoods, and of what tells how new a series is.

Sizes are bounded before anything of that size is made: `classes` has to be that of the labels, and quadrature points
are few.
"""

from __future__ import annotations

from typing import Any

import torch

from siggpde.persistence.schema import (
    EITHER,
    RAW,
    SINGLE,
    Absent,
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
    Size,
    Text,
    integers,
)
from siggpde.persistence.view_schema import blocks, kernels_of

LOGARITHM = 100.0
"""The largest logarithm, up or down, of a scale, noise or amplitude: of standardised series all are far from it."""

_SMALLEST, _LARGEST = 1e-40, 1e40
_POINTS = Integer(1, 2**14)
_SEED = Absent(Integer(0, 2**63))
_POSITIVE = Number(_SMALLEST, _LARGEST)
_CLASS_WEIGHT = Absent(Maybe(ListOf(Number(above=0), size="classes")))


def _named(entries: dict[str, Schema]) -> Fields:
    return Fields({"name": Text(), **entries})


LIKELIHOOD = ByKind(
    "name",
    {
        "softmax": _named(
            {
                "classes": Size("classes"),
                "points": Absent(_POINTS),
                "predict_points": Absent(_POINTS),
                "class_weight": _CLASS_WEIGHT,
                "seed": _SEED,
            }
        ),
        "robustmax": _named({"classes": Size("classes"), "eps": Number(1e-12, 0.999), "class_weight": _CLASS_WEIGHT}),
        "bernoulli": _named({"link": OneOf(("probit", "logit")), "class_weight": _CLASS_WEIGHT}),
        "gaussian": _named({"noise": _POSITIVE}),
        "student_t": _named({"scale": _POSITIVE, "df": Number(1e-3, 1e9), "learn_df": Flag()}),
        "poisson": _named({"offset": Number(-LOGARITHM, LOGARITHM)}),
    },
)


_LOGARITHM = Absent(Array(low=-LOGARITHM, high=LOGARITHM))
PARAMETERS: dict[str, Schema] = {
    "likelihood.log_noise": _LOGARITHM,
    "likelihood.log_scale": _LOGARITHM,
    "likelihood.log_df": _LOGARITHM,
}
"""The tensors of likelihoods in the state of a model."""


_MOST_CLASSES = 10**6

_FACTS = Fields(  # in units of the user's
    {
        "medians": Array("facts", low=-RAW, high=RAW),
        "units": Array("facts", above=0, high=RAW),
        "low": Array("facts", low=-RAW, high=RAW),
        "high": Array("facts", low=-RAW, high=RAW),
        "least": Array("facts", low=0, high=RAW),
        "reference": Array("references", "facts", dtypes=SINGLE),
        "middle": Number(-RAW, RAW),
        "upper": Number(-RAW, RAW),
    }
)
NOVELTY = Fields(
    {
        "weights": Array("members", low=0, high=1),
        "centres": Array("members"),
        "widths": Array("members", above=0),
        "middle": Number(),
        "upper": Number(),
        "facts": _FACTS,
        "left_out": Array("members", "known", dtypes=SINGLE),
        "left_out_facts": Array("known"),
        "labels": Maybe(integers("known", high=_MOST_CLASSES)),
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


_STANDARD = Fields({"mean": Array("channels", low=-RAW, high=RAW), "spread": Array("channels", above=0, high=RAW)})
_LANDMARKS = Fields(
    {
        "values": Array("landmarks", "points", "channels", low=-_FURTHEST, high=_FURTHEST, dtypes=SINGLE),
        "lengths": Maybe(integers("landmarks", low=1)),
        "times": Maybe(Array("landmarks", "points", low=-RAW, high=RAW)),
    },
    also=_lengths,
)
_RECIPE = Fields(
    {
        "name": Text(),
        "weights": ListOf(Items((Text(), Number(1e-9, 1e9))), least=1, most=10**4),
        "power": Integer(1, 16),
    }
)
_LINK = Fields(
    {
        "mixing": Array("outputs", "outputs"),
        "offset": Array("outputs"),
        "usual_variance": Number(),
        "lapse": Number(0, 0.999),
        "frequencies": Absent(Maybe(Array("outputs", low=0, high=1))),
        "nothing": Absent(Number(0, 1)),
    },
    also=_frequencies,
)
_LEFT_OUT = Fields(
    {
        "y": Array("series left out", low=-RAW, high=RAW, dtypes=(*EITHER, torch.int64)),
        "mean": Array("series left out", "outputs"),
        "variance": Array("series left out"),
        "variances": Array("members", "series left out"),
        "groups": Maybe(integers("series left out")),
        "exact": Flag(),
        "means": Absent(Maybe(Array("members", "series left out", "outputs", dtypes=SINGLE))),
    }
)
RECALIBRATION = Fields({"degrees": Number(2.01, 1e9), "scale": Number(1e-6, 1e6)})
WEIGHTS = Array("members", low=0, high=1)
"""Of members; they sum to 1 (`weights_sum`)."""
_NORMS = Maybe(Array("landmarks", low=0))
_VARIANCE = Number(0, 1e30)

_MEMBER = Fields(
    {
        "recipe": _RECIPE,
        "alpha": Array("landmarks", "outputs"),
        "root": Array("landmarks", "rank", dtypes=EITHER),
        "noise": _VARIANCE,
        "amplitude": _VARIANCE,
        "counts": Absent(Maybe(Array("landmarks", low=0))),
        "norms": _NORMS,
        "score": Number(),
    },
    own=("rank",),
)
_PART = Fields(
    {
        "coefficient": Number(0),
        "weights": Array("features", "outputs", dtypes=EITHER),
        "factor": Array("features", "rank", dtypes=SINGLE),
    },
    own=("features",),
)
_WEIGHT_MEMBER = Fields(
    {
        "recipe": _RECIPE,
        "parts": MapOf(_PART),
        "constant": Array("outputs"),
        "root": Array("rank"),
        "noise": _VARIANCE,
        "amplitude": _VARIANCE,
        "score": Number(),
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
        for number, part in member["parts"].items():
            if not (number.isascii() and number.isdecimal() and len(number) < 9 and int(number) < len(widths)):
                return f"has weights for the part {number[:20]!r} of {len(widths)}"
            if len(part["weights"]) != widths[int(number)]:
                return f"has {len(part['weights'])} weights for the {widths[int(number)]} features of part {number}"
    return None


_ENDS: dict[str, Schema] = {
    "link": Maybe(_LINK),
    "recalibration": Maybe(RECALIBRATION),
    "left_out": Absent(Maybe(_LEFT_OUT)),
    "novelty": Absent(Maybe(NOVELTY)),
}

COMMITTEE = ByKind(
    "kind",
    {
        "views": Fields(
            {
                "kind": Text(),
                "standard": _STANDARD,
                "landmarks": _LANDMARKS,
                "blocks": blocks(centred=True),
                "members": ListOf(_MEMBER, size="members", least=1, most=10**4),
                "weights": WEIGHTS,
                **_ENDS,
                "class_weights": Maybe(Array("outputs", above=0)),
            },
            also=lambda state, at: _with_landmarks(state, at) or _outputs(state, at),
        ),
        "weights": Fields(
            {
                "kind": Text(),
                "standard": _STANDARD,
                "blocks": blocks(centred=False, kinds=("linear", "path", "windows", "spectrum", "features")),
                "centres": ListOf(Array(None, low=-RAW, high=RAW)),
                "members": ListOf(_WEIGHT_MEMBER, size="members", least=1, most=10**4),
                "weights": WEIGHTS,
                **_ENDS,
            },
            also=lambda state, at: _recipes(state, at) or _parts(state, at) or _outputs(state, at),
        ),
    },
)
