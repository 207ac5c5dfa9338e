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
    path_channels,
    transform,
    weights_sum,
)
from siggpde.persistence.schema import (
    EITHER,
    RAW,
    Absent,
    Entries,
    Place,
    Schema,
    SchemaError,
    array,
    describe,
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
    plain,
    size,
    text,
)  # fmt: skip

_MOST_CHARACTERS = 10**7  # of all labels together, in memory
_DTYPE = re.compile(r"[<>|=](b1|[iu][1248]|f[248]|O|U(\d{1,8}))")
_CHANNELS = 10**6

_SPECTROGRAM = fields(
    {
        "rate": number(1e-100, 1e100),
        "nfft": integer(2, 2**20),
        "overlap": integer(0, 2**20),
        "low": maybe(number()),
        "high": maybe(number()),
        "first_bin": maybe(integer(0, 2**20)),
        "last_bin": maybe(integer(0, 2**20)),
        "log": flag,
        "standardise": flag,
        "window": plain(),
    }
)
_PREPARATION = fields(
    {
        "options": fields(
            {
                "time_channel": maybe(integer(-_CHANNELS, _CHANNELS)),
                "mask": flag,
                "max_points": maybe(integer(1)),
                "spectrogram": maybe(_SPECTROGRAM),
            }
        ),
        "raw_channels": size("channels of X"),
        "fill": list_of(number(-RAW, RAW), least=1),
        "gap_share": number(0, 1),
    }
)
_FACTS: Entries = {
    "channel_names_": list_of(text, size="channels of X", least=1, most=_CHANNELS),
    "n_channels_": size("channels of X"),
    "length_range_": items(integer(1), integer(1)),
    "fingerprint_": text,
    "n_series_": integer(1),
    "n_groups_": Absent(maybe(integer(2))),
    "n_iter_": Absent(integer(0)),
    "n_features_in_": Absent(integer(1)),
    "seconds_": Absent(number(0)),
    "summary_": Absent(map_of(plain())),
    "tried_": Absent(list_of(items(text, number(), number(0, 1)), most=10**4)),
    "reading_": Absent(maybe(plain())),
}
_NUMBERS: Entries = {"target_shift_": number(-RAW, RAW), "target_scale_": number(high=RAW, above=0)}


def _labels(value: Any, at: Place) -> None:
    """The labels of the classes and their type, in no more memory than labels need."""
    fields({"dtype": text, "values": list_of(plain(), size="classes", least=2)})(value, at)
    dtype, labels = value["dtype"], value["values"]
    kind = _DTYPE.fullmatch(dtype)
    at.at("dtype").require(kind is not None, dtype, "a type of labels")
    characters = int((kind and kind[2]) or 0) * len(labels)
    wanted = f"a type with at most {_MOST_CHARACTERS} characters in all labels"
    at.at("dtype").require(characters <= _MOST_CHARACTERS, dtype, wanted)
    at.at("values").require(not any(isinstance(label, dict | list) for label in labels), labels, "labels, not lists")


def _paths(member: Any, at: Place) -> str | None:
    wanted, found = path_channels(member["transform"]), member["model"]["kernel"]["channels"]
    return None if wanted == found else f"has a kernel of {found} channels, but paths of {wanted}"


_MEMBER = fields(
    {
        "model": fields(
            {
                "dtype": one_of("float32", "float64"),
                "covariance": one_of("full", "shared", "diagonal"),
                "kernel": fields(
                    {
                        "channels": integer(1, _CHANNELS),
                        "normalized": flag,
                        "finite": flag,
                        "depth": maybe(integer(0, MAX_LETTERS)),
                        "tol": number(1e-15, 1),
                    }
                ),
                "features": fields({"order": one_of("energy", "lexicographic"), "rank": maybe(integer(1))}),
                "likelihood": LIKELIHOOD,
                "fixed": list_of(text, most=1000),
                "layouts": map_of(list_of(integer(0, 10), most=10), most=1000),
            }
        ),
        "transform": transform(spread=5e-324, largest=RAW),
        "settings": map_of(plain()),
        "score": maybe(number()),
        "history": plain(),
    },
    also=_paths,
)
_LETTERS, _LENGTHS = Absent(integers(None, high=_CHANNELS)), Absent(integers(None, high=MAX_LETTERS))
_MEMBER_TENSORS = fields(
    {
        "kernel.log_theta": array(None, low=-LOGARITHM, high=LOGARITHM),
        "kernel.log_amplitude": array(low=-LOGARITHM, high=LOGARITHM),
        "kernel.words.letters": _LETTERS,
        "kernel.words.lengths": _LENGTHS,
        "features.words.letters": _LETTERS,
        "features.words.lengths": _LENGTHS,
        "features.basis": Absent(array(None, None)),
        "variational.mean": array("latents", "inducing variables", dtypes=EITHER),
        "variational.root": plain(tensors=True),
        **PARAMETERS,
    },
    own=("inducing variables",),
)


_ESTIMATORS = ("SigGPClassifier", "SigGPRegressor")


def _estimator(classes: bool, more: Entries) -> Schema:
    return fields(
        {
            "estimator": one_of(*_ESTIMATORS),
            "parameters": fields({"n_jobs": Absent(maybe(integer(-1)))}, others=plain()),
            "facts": fields(_FACTS if classes else {**_FACTS, **_NUMBERS}),
            "preparation": _PREPARATION,
            **({"classes": _labels} if classes else {}),
            **more,
        }
    )


_OF_WORDS: Entries = {
    "members": list_of(_MEMBER, size="members", least=1, most=10**4),
    "sharpness": Absent(number(1e-3, 1e3)),
    "recalibration": Absent(maybe(RECALIBRATION)),
    "novelty": Absent(plain()),
}


def check_estimator(manifest: Mapping[str, Any]) -> Place:
    """Raises a `SchemaError` for metadata of an estimator that cannot be right; returns what its committee must fit."""
    place = Place("model")
    classes = manifest.get("estimator") == _ESTIMATORS[0]
    more: Entries = {"committee": plain()} if "committee" in manifest else _OF_WORDS
    _estimator(classes, more)(manifest, place)
    return place


def check_committee(state: Any, manifest: Mapping[str, Any], place: Place) -> None:
    """Checks the restored state of a committee of views."""
    COMMITTEE(state, place.at("committee"))
    _check_preparation(manifest["preparation"], place)


def check_words(tensors: Mapping[str, Tensor], manifest: Mapping[str, Any], place: Place) -> list[dict[str, Tensor]]:
    """The same for the tensors of a committee of words; returns those of each member, by their names in its model."""
    WEIGHTS(tensors.get("weights"), place.at("weights"))
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
        _MEMBER_TENSORS(own, place.at(f"members[{index}]"))
    _check_preparation(manifest["preparation"], place)
    return members


def check_novelty(state: Any, place: Place) -> None:
    """Checks the restored novelty of the paper's model."""
    NOVELTY(state, place.at("novelty"))


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
