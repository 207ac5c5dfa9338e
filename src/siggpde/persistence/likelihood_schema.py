"""The schema of the settings of likelihoods, of which there are as many as names.

Sizes are bounded before anything of that size is made: `classes` has to be that of the labels, and quadrature points
are few.
"""

from __future__ import annotations

from siggpde.persistence.schema import (
    Absent,
    ByKind,
    Fields,
    Flag,
    Integer,
    ListOf,
    Maybe,
    Number,
    OneOf,
    Schema,
    Size,
    Text,
)
from siggpde.persistence.tensor_schema import Array

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
