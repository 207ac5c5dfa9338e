"""The schema of a saved estimator: settings, what it knows of its series, their preparation, and its committee.

Models of `method="paper"` are described here; those of views in
`persistence.committee_schema`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from siggpde.numerics.words import MAX_LETTERS
from siggpde.persistence.committee_schema import (
    COMMITTEE,
    LIKELIHOOD,
    LOGARITHM,
    NOVELTY,
    PARAMETERS,
    RECALIBRATION,
    WEIGHTS,
    weights_sum,
)
from siggpde.persistence.schema import (
    EITHER,
    RAW,
    Absent,
    Array,
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
    Plain,
    Schema,
    SchemaError,
    Size,
    Text,
    describe,
    integers,
)
from siggpde.persistence.view_schema import path_channels, transform

_MOST_CHARACTERS = 10**7  # of all labels together, in memory
_DTYPE = re.compile(r"[<>|=](b1|[iu][1248]|f[248]|O|U(\d{1,8}))")
_CHANNELS = 10**6

_SPECTROGRAM = Fields(
    {
        "rate": Number(1e-100, 1e100),
        "nfft": Integer(2, 2**20),
        "overlap": Integer(0, 2**20),
        "low": Maybe(Number()),
        "high": Maybe(Number()),
        "first_bin": Maybe(Integer(0, 2**20)),
        "last_bin": Maybe(Integer(0, 2**20)),
        "log": Flag(),
        "standardise": Flag(),
        "window": Plain(),
    }
)
_PREPARATION = Fields(
    {
        "options": Fields(
            {
                "time_channel": Maybe(Integer(-_CHANNELS, _CHANNELS)),
                "mask": Flag(),
                "max_points": Maybe(Integer(1)),
                "spectrogram": Maybe(_SPECTROGRAM),
            }
        ),
        "raw_channels": Size("channels of X"),
        "fill": ListOf(Number(-RAW, RAW), least=1),
        "gap_share": Number(0, 1),
    }
)
_FACTS: dict[str, Schema] = {
    "channel_names_": ListOf(Text(), size="channels of X", least=1, most=_CHANNELS),
    "n_channels_": Size("channels of X"),
    "length_range_": Items((Integer(1), Integer(1))),
    "fingerprint_": Text(),
    "n_series_": Integer(1),
    "n_groups_": Absent(Maybe(Integer(2))),
    "n_iter_": Absent(Integer(0)),
    "n_features_in_": Absent(Integer(1)),
    "seconds_": Absent(Number(0)),
    "summary_": Absent(MapOf(Plain())),
    "tried_": Absent(ListOf(Items((Text(), Number(), Number(0, 1))), most=10**4)),
    "reading_": Absent(Maybe(Plain())),
}
_NUMBERS: dict[str, Schema] = {"target_shift_": Number(-RAW, RAW), "target_scale_": Number(high=RAW, above=0)}


class _Labels:
    """The labels of the classes and their type, in no more memory than labels need."""

    def check(self, value: Any, at: Place) -> None:
        Fields({"dtype": Text(), "values": ListOf(Plain(), size="classes", least=2)}).check(value, at)
        found = _DTYPE.fullmatch(value["dtype"])
        if not found:
            at.at("dtype").refuse(value["dtype"], "a type of labels")
        if found[2] and int(found[2]) * len(value["values"]) > _MOST_CHARACTERS:
            at.at("dtype").refuse(value["dtype"], f"a type with at most {_MOST_CHARACTERS} characters in all labels")
        if any(isinstance(label, dict | list) for label in value["values"]):
            at.at("values").refuse(value["values"], "labels, not lists")


def _paths(member: Any, at: Place) -> str | None:
    wanted, found = path_channels(member["transform"]), member["model"]["kernel"]["channels"]
    return None if wanted == found else f"has a kernel of {found} channels, but paths of {wanted}"


_MEMBER = Fields(
    {
        "model": Fields(
            {
                "dtype": OneOf(("float32", "float64")),
                "covariance": OneOf(("full", "shared", "diagonal")),
                "kernel": Fields(
                    {
                        "channels": Integer(1, _CHANNELS),
                        "normalized": Flag(),
                        "finite": Flag(),
                        "depth": Maybe(Integer(0, MAX_LETTERS)),
                        "tol": Number(1e-15, 1),
                    }
                ),
                "features": Fields(
                    {"order": OneOf(("energy", "lexicographic")), "rank": Maybe(Integer(1))},
                ),
                "likelihood": LIKELIHOOD,
                "fixed": ListOf(Text(), most=1000),
                "layouts": MapOf(ListOf(Integer(0, 10), most=10), most=1000),
            }
        ),
        "transform": transform(spread=5e-324, largest=RAW),
        "settings": MapOf(Plain()),
        "score": Maybe(Number()),
        "history": Plain(),
    },
    also=_paths,
)
_LETTERS, _LENGTHS = Absent(integers(None, high=_CHANNELS)), Absent(integers(None, high=MAX_LETTERS))
_MEMBER_TENSORS = Fields(
    {
        "kernel.log_theta": Array(None, low=-LOGARITHM, high=LOGARITHM),
        "kernel.log_amplitude": Array(low=-LOGARITHM, high=LOGARITHM),
        "kernel.words.letters": _LETTERS,
        "kernel.words.lengths": _LENGTHS,
        "features.words.letters": _LETTERS,
        "features.words.lengths": _LENGTHS,
        "features.basis": Absent(Array(None, None)),
        "variational.mean": Array("latents", "inducing variables", dtypes=EITHER),
        "variational.root": Plain(tensors=True),
        **PARAMETERS,
    },
    own=("inducing variables",),
)


_ESTIMATORS = ("SigGPClassifier", "SigGPRegressor")


def _estimator(classes: bool, more: dict[str, Schema]) -> Fields:
    return Fields(
        {
            "estimator": OneOf(_ESTIMATORS),
            "parameters": Fields({"n_jobs": Absent(Maybe(Integer(-1)))}, others=Plain()),
            "facts": Fields(_FACTS if classes else {**_FACTS, **_NUMBERS}),
            "preparation": _PREPARATION,
            **({"classes": _Labels()} if classes else {}),
            **more,
        }
    )


_OF_WORDS: dict[str, Schema] = {
    "members": ListOf(_MEMBER, size="members", least=1, most=10**4),
    "sharpness": Absent(Number(1e-3, 1e3)),
    "recalibration": Absent(Maybe(RECALIBRATION)),
    "novelty": Absent(Plain()),
}


def check_estimator(manifest: Mapping[str, Any]) -> Place:
    """Raises a `SchemaError` for metadata of an estimator that cannot be right; returns what its committee must fit."""
    place = Place("model")
    classes = manifest.get("estimator") == _ESTIMATORS[0]
    more: dict[str, Schema] = {"committee": Plain()} if "committee" in manifest else _OF_WORDS
    _estimator(classes, more).check(manifest, place)
    return place


def check_committee(state: Any, manifest: Mapping[str, Any], place: Place) -> None:
    """Checks the restored state of a committee of views."""
    COMMITTEE.check(state, place.at("committee"))
    _check_preparation(manifest["preparation"], place)


def check_words(tensors: Mapping[str, Tensor], manifest: Mapping[str, Any], place: Place) -> list[dict[str, Tensor]]:
    """The same for the tensors of a committee of words; returns those of each member, by their names in its model."""
    WEIGHTS.check(tensors.get("weights"), place.at("weights"))
    wrong = weights_sum(tensors["weights"])
    if wrong:
        raise SchemaError(f"the model {wrong}")
    members: list[dict[str, Tensor]] = [{} for _ in manifest["members"]]
    for name, tensor in tensors.items():
        found = re.fullmatch(r"member(\d{1,6})\.(.+)", name)
        if name == "weights" or name.startswith("novelty."):
            continue
        if not found or int(found[1]) >= len(members):
            raise SchemaError(f"the tensor {describe(name)} belongs to none of the {len(members)} members")
        members[int(found[1])][found[2]] = tensor
    for index, own in enumerate(members):
        _MEMBER_TENSORS.check(own, place.at(f"members[{index}]"))
    _check_preparation(manifest["preparation"], place)
    return members


def check_novelty(state: Any, place: Place) -> None:
    """Checks the restored novelty of the paper's model."""
    NOVELTY.check(state, place.at("novelty"))


def _check_preparation(state: Any, place: Place) -> None:
    """That what comes out of the preparation has the channels of the committee."""
    options, kept = state["options"], state["raw_channels"]
    time = options["time_channel"]
    if time is not None:
        if not -kept <= time < kept:
            raise SchemaError(f"{place.name}.preparation has the time channel {time} of {kept}")
        kept -= 1
    filled, channels = len(state["fill"]), place.known("channels")
    found = filled + (kept if options["mask"] else 0)
    if filled % max(1, kept) or (options["spectrogram"] is None and filled != kept) or found != channels:
        raise SchemaError(f"{place.name}.preparation has {filled} means and gives {found} channels for {channels}")
