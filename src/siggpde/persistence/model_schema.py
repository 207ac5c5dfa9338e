"""The schema of a saved estimator: settings, what it knows of its series, their preparation, and its committee."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from siggpde.numerics.windows import LIFTS, MAX_DEPTH
from siggpde.numerics.words import MAX_LETTERS, count_up_to
from siggpde.persistence.schema import (
    EITHER,
    LARGEST,
    POSITIVE,
    RAW,
    SINGLE,
    Place,
    Schema,
    also,
    array,
    by_kind,
    check,
    describe,
    integer,
    integers,
    list_of,
    map_of,
    maybe,
    number,
    plain,
)
from siggpde.series import PathOptions
from siggpde.series.statistics import OF_CHANNELS
from siggpde.utils.times import TimeFormat
from siggpde.views.facts import KERNEL, facts_of, feature_count
from siggpde.views.window_features import WindowFeatures

_SPREAD = 1e-30  # the smallest of a channel of standardised series
_FURTHEST = 1e5  # of standardised series (`views.base`)
_MOST_CHANNELS = _MOST_CLASSES = 10**6
_MOST_WORDS, _MOST_LETTERS = 10**6, 10  # of paths
_MOST_CHARACTERS = 10**7  # of all labels together, in memory
_LABELS = re.compile(r"[<>|=](b1|[iu][1248]|f[248]|O|U(\d{1,8})|[mM]8\[\w{1,4}\])")
_CHANNELS = integer(1, _MOST_CHANNELS)

# Gaussian processes.

_LOGARITHM = 100.0  # the largest of a scale, noise or amplitude, up or down: of standardised series all are far from it

_CLASSES, _QUADRATURE = integer(1, size="classes"), integer(1, 2**14)
_CLASS_WEIGHT = maybe(list_of(number(POSITIVE), size="classes"))
_SCALE = number(1e-40, 1e40)
_LIKELIHOODS = {
    "softmax": {
        "classes": _CLASSES,
        "points? predict_points?": _QUADRATURE,
        "class_weight?": _CLASS_WEIGHT,
        "seed?": integer(0, 2**63),
    },
    "robustmax": {"classes": _CLASSES, "eps": number(1e-12, 0.999), "class_weight?": _CLASS_WEIGHT},
    "bernoulli": {"link": {"probit", "logit"}, "class_weight?": _CLASS_WEIGHT},
    "gaussian": {"noise": _SCALE},
    "student_t": {"scale": _SCALE, "df": number(1e-3, 1e9), "learn_df": bool},
    "poisson": {"offset": number(-_LOGARITHM, _LOGARITHM)},
}
GP_SETTINGS = {
    "dtype": {"float32", "float64"},
    "covariance": {"full", "shared", "diagonal"},
    "kernel": {
        "channels": integer(1, _MOST_CHANNELS),
        "normalized finite": bool,
        "depth": maybe(integer(0, MAX_LETTERS)),
        "tol": number(1e-15, 1),
    },
    "features": {"order": {"energy", "lexicographic"}, "rank": maybe(integer(1))},
    "likelihood": by_kind("name", _LIKELIHOODS),
    "fixed": list_of(str, most=1000),
    "layouts": map_of(list_of(integer(0, 10), most=10)),
}
"""The schema of the settings of a model."""
_WORDS = {"letters?": integers(None, high=_MOST_CHANNELS), "lengths?": integers(None, high=MAX_LETTERS)}
GP_TENSORS = {
    "kernel.log_theta": array(None, low=-_LOGARITHM, high=_LOGARITHM),
    "kernel.log_amplitude": array(low=-_LOGARITHM, high=_LOGARITHM),
    "likelihood.log_noise? likelihood.log_scale? likelihood.log_df?": array(low=-_LOGARITHM, high=_LOGARITHM),
    **{f"{owner}.words.{name}": schema for owner in ("kernel", "features") for name, schema in _WORDS.items()},
    "features.basis?": array(None, None),
    "variational.mean": array(None, None, dtypes=EITHER),
    "variational.root": array(..., low=-RAW, high=RAW, dtypes=EITHER),
}
"""The schema of the tensors of a model."""

# Series to paths.

_PATH_OPTIONS = {
    "time base_point lead_lag": bool,
    "append": {"none", "variation", "arc"},
    "difference": integer(0, 5),
    "clock?": {"span", "points"},
    "scale?": {"set", "series"},
}


def _transform(smallest: float = _SPREAD, largest: float = LARGEST) -> Schema:
    """Of a `PathTransform` of series of "channels", whose spreads are at least `smallest`."""
    learned = {
        "options": _PATH_OPTIONS,
        "mean": list_of(number(-largest, largest), size="channels"),
        "spread": list_of(number(smallest, largest), size="channels"),
        "appended_spread": maybe(list_of(number(POSITIVE), least=1)),
        "duration": maybe(number(POSITIVE, RAW)),
    }
    return also(learned, _appends)


def _appends(state: Any, at: Place) -> None:
    append, spreads = state["options"]["append"], state["appended_spread"]
    wanted = {"none": None, "variation": len(state["mean"]), "arc": 1}[append]
    count = None if spreads is None else len(spreads)
    at.demand(count == wanted, f"has appended_spread of {count} channels, but appends {append!r}")


def _path_channels(state: Any) -> int:
    """Of the paths that the transform with this state makes."""
    return PathOptions(**state["options"]).channels(len(state["mean"]))


# Blocks of views. Of each pair of kinds that one class of blocks has, a setting tells which it is.


def _windows(bins: Schema) -> Schema:
    settings = {
        "lifts": also(
            list_of(set(LIFTS), least=1, most=len(LIFTS)),
            lambda lifts, at: at.demand(len(set(lifts)) == len(lifts), "has a value twice"),
        ),
        "points": integer(3, 1000),
        "max_dilations": integer(1, 100),
        "max_windows": integer(1, 10**5),
        "max_channels": integer(2, 10**6),
        "thresholds": integer(0, 1000),
        "path_length": number(POSITIVE),
        "seed": integer(0, 2**63 - 1),
    }
    view = {
        "channels": _CHANNELS,
        "groups": list_of(list_of(integer(0, 10**6), least=1, most=1000), least=1, most=10**5),
        "points": integer(2, 1000),
        "depth": integer(1, MAX_DEPTH),
        "dilation smoothing": integer(1, 2**12),
        "lift": set(LIFTS),
        "base_point": bool,
        "max_windows": integer(1, 10**5),
    }
    views = {"view": view, "path_scales": array(None, low=POSITIVE), "thresholds": array(None, None)}
    features = {
        "settings": settings,
        "mean": array("channels"),
        "spread": array("channels", low=_SPREAD),
        "lift_scales": map_of(array("channels", low=_SPREAD)),
        "views": list_of(views, least=1, most=10**4),
    }
    state = {"view": {"settings": settings, "bins": bins}, "features": features, "scaler": list_of(_SCALER)}
    return also(state, _window_sizes)


_SCALER = {
    "kept": integers(".features"),
    "mean": array(".features", low=-RAW, high=RAW, dtypes=EITHER),
    "spread": array(".features", low=POSITIVE, high=RAW, dtypes=EITHER),
}


def _window_sizes(state: Any, at: Place) -> None:
    """That views, scales, thresholds and scalers are of the same windows."""
    features, channels = WindowFeatures.from_state(state["features"]), at.sizes["channels"]
    count, inside = features.settings.thresholds, at.at("features.views")
    for index, fitted in enumerate(features.views):
        view, place = fitted.view, inside.at(index)
        scales, groups, shape = len(fitted.path_scales), len(view.groups), tuple(fitted.thresholds.shape)
        place.demand(view.channels == channels, f"is of {view.channels} channels, but the series have {channels}")
        place.demand(scales == groups, f"has {scales} path_scales for {groups} groups")
        place.demand(shape == (count, view.columns), f"has thresholds {shape} for {count} of {view.columns} words")
        place.demand(view.lift in features.lift_scales, f"is of the lift {view.lift!r}, which has no scale")
    widths, scaler = features.widths(), state["scaler"]
    at.demand(len(scaler) == len(widths), f"has {len(scaler)} scalers for {len(features.views)} views")
    for index, (width, columns) in enumerate(zip(widths, scaler, strict=True)):
        _keeps(columns["kept"], width, at.at("scaler").at(index))


def _keeps(kept: Tensor, count: int, at: Place) -> None:
    last = int(kept.max()) if len(kept) else -1
    at.demand(last < count, f"keeps feature {last} of {count}")


def _path(degree: Schema) -> Schema:
    view = {
        "name": str,
        "options": _PATH_OPTIONS,
        "degree": degree,
        "words": integer(1),
        "time_scale path_length": number(POSITIVE),
        "max_points": integer(1, 10**9),  # to which longer series are averaged down
    }
    return also({"view": view, "transform": _transform(), "theta": array(None)}, _scales, _words)


def _scales(block: Any, at: Place) -> None:
    wanted, count = _path_channels(block["transform"]), len(block["theta"])
    at.demand(wanted == count, f"has theta for {count} channels, but paths of {wanted}")


def _words(block: Any, at: Place) -> None:
    """That the words of paths, in whole levels (`views.paths`), are not too many, before they are made."""
    words, levels = block["view"]["words"], [count_up_to(len(block["theta"]), n + 1) for n in range(_MOST_LETTERS)]
    count = max(levels[0], *(level for level in levels if level <= words), 0)
    if block["view"]["degree"] is not None:  # of these, some
        count = min(words, levels[-1])
    at.demand(count <= _MOST_WORDS, f"has {count} words of paths, of which {_MOST_WORDS} are the most")


def _kernel(bandwidth: Schema) -> Schema:
    view = {
        "name": str,
        "base_point": bool,
        "bandwidth": bandwidth,
        "time_weight": number(0),
        "path_length": number(POSITIVE),
        "max_points": integer(1, 256),
        "max_pivots": integer(1, 10**5),
    }
    state = {
        "view": view,
        "transform": _transform(),
        # The work grows with the square of the length of paths, which is `path_length` in the median.
        "theta": array(None, low=-1e3, high=1e3),
        "scales": (number(1e-12, 1e12), number(1e-12, 100)),
        "pivots": maybe(integers(".pivots")),
        "factor": maybe(array(".pivots", ".pivots")),
        "precise": bool,
    }
    return also(state, _scales, _pivots)


def _pivots(block: Any, at: Place) -> None:
    pivots, factor, landmarks = block["pivots"], block["factor"], at.sizes.get("landmarks", 0)
    at.demand((pivots is None) == (factor is None), "has pivots or their factor, but not both")
    if pivots is not None:
        at.demand(len(pivots) > 0 and int(pivots.max()) < landmarks, f"has pivots beyond the {landmarks} landmarks")
        at.demand(bool((factor.diagonal() > 1e-12).all()), "has a factor with a diagonal that is not positive")


def _keeps_of_example(block: Any, at: Place) -> None:
    example = block["example"]
    points, channels = example["length"], example["channels"]
    at.demand(points * channels <= 10**7, f"has an example of {points} points and {channels} channels: too large")
    _keeps(block["scaler"][0]["kept"], len(example["features"]), at)


_EXAMPLE = {
    "length": integer(1, 10**7),
    "channels": _CHANNELS,
    "ragged": bool,
    "features": array(None, low=-RAW, high=RAW),
}
_MOST_FACTS = 10**4
_FACT_LIST = list_of((str, maybe(list_of(str, most=10**6))), least=1, most=_MOST_FACTS)


def _fact_sizes(block: Any, at: Place) -> None:
    """That facts, their knots and their scalers are as many, and no scaler is of more features than a fact has."""
    facts, knots, scaler = facts_of(block["facts"]), block["knots"], block["scaler"]
    at.demand(len(facts) == len(knots) == len(scaler), f"has {len(knots)} knots and {len(scaler)} scalers of facts")
    for index, (fact, points, columns) in enumerate(zip(facts, knots, scaler, strict=True)):
        _keeps(columns["kept"], feature_count(fact, points), at.at("scaler").at(index))


_BLOCKS: dict[str, Schema] = {
    "facts": also({"facts": _FACT_LIST, "knots": list_of(array(None)), "scaler": list_of(_SCALER)}, _fact_sizes),
    "linear": _path(integer(1, 1)),
    "path": _path(maybe(integer(2, 10))),
    "kernel": _kernel(None),
    "lifted": _kernel(number(1e-9, 1e9)),
    "windows": _windows(None),
    "spectrum": _windows(integer(1, 4096)),
    "features": also({"name": str, "scaler": (_SCALER,), "example": _EXAMPLE}, _keeps_of_example),
}


def _kernels(block: Any) -> set[str]:
    """The names of the kernels of a block with this state."""
    kind, state = block["kind"], block["state"]
    if kind in ("features", "facts"):
        return {state.get("name", KERNEL)}
    if kind not in ("windows", "spectrum"):
        return {state["view"]["name"]}
    lifts = ["spectrum" if kind == "spectrum" else view["view"]["lift"] for view in state["features"]["views"]]
    return {f"{lift}{end}" for lift in lifts for end in "13"}


def _blocks(centred: bool, *kinds: str) -> Schema:
    """All blocks of a committee, with the centring of their kernels or without it."""
    centring = map_of({"columns": array("landmarks"), "mean": number(), "scale": number(0)} if centred else maybe({}))
    schemas = {kind: {"state": _BLOCKS[kind], "centring": centring, "extended?": bool} for kind in kinds or _BLOCKS}
    return list_of(also(by_kind("kind", schemas), _centrings), least=1, most=10**4)


def _centrings(block: Any, at: Place) -> None:
    names, centred = (", ".join(sorted(names))[:100] for names in (_kernels(block), block["centring"]))
    at.demand(_kernels(block) == set(block["centring"]), f"has the kernels {names}, but centring of {centred}")


# Committees of views.


def _sum_to_one(values: Any, at: Place) -> None:
    total = float(values.double().sum())
    at.demand(abs(total - 1) < 1e-4, f"has weights of members that sum to {total:g}, not to 1")


def _same_facts(state: Any, at: Place) -> None:
    """That the facts of the model are those of its landmarks and its view."""
    facts, committee = state["facts"].get("facts_", []), state["committee"]
    landmarks = committee.get("landmarks") or {}
    width = 0 if landmarks.get("facts") is None else landmarks["facts"].shape[1]
    at.demand(width == (len(facts) if landmarks else 0), f"has {len(facts)} facts, but landmarks with {width}")
    at.demand((width > 0) == (landmarks.get("gaps") is not None), "has landmarks with facts or gaps, but not both")
    for names in ([name for name, _ in facts], *(levels for _, levels in facts if levels is not None)):
        at.demand(len(set(names)) == len(names), "has a fact, or a level of one, twice")
    for block in committee["blocks"]:
        at.demand(block["kind"] != "facts" or block["state"]["facts"] == facts, "has a view of other facts")


def _lengths(state: Any, at: Place) -> None:
    lengths, (series, points, _) = state["lengths"], state["values"].shape
    at.demand(series > 0 and points > 0, "has no series, or series without points")
    at.demand(lengths is None or int(lengths.max()) <= points, f"has lengths beyond its {points} points")


_STANDARD = {"mean": array("channels", low=-RAW, high=RAW), "spread": array("channels", low=POSITIVE, high=RAW)}


def _series(rows: str) -> Schema:
    schema = {
        "values": array(rows, "points", "channels", low=-_FURTHEST, high=_FURTHEST, dtypes=SINGLE),
        "lengths": maybe(integers(rows, low=1)),
        "times": maybe(array(rows, "points", low=-RAW, high=RAW)),
        "facts?": array(rows, "columns of facts", low=-RAW, high=RAW),
        "gaps?": integers(rows, "columns of facts", high=1),
    }
    return also(schema, _lengths)


_RECIPE = {"name": str, "weights": list_of((str, number(1e-9, 1e9)), least=1, most=10**4)}
_POSTERIOR = {"noise amplitude": number(0, 1e30), "score": number()}
_MEMBER = {
    "recipe": {**_RECIPE, "power": integer(1, 16)},
    **_POSTERIOR,
    "alpha": array("landmarks", "outputs"),
    "root": array("landmarks", None, dtypes=EITHER),
    "counts? norms": maybe(array("landmarks", low=0)),
    "others?": {"alpha": array("others", "outputs"), "norms": maybe(array("others", low=0))},
}
_PART = {
    "coefficient": number(0),
    "weights": array(".features", "outputs", dtypes=EITHER),
    "factor": array(".features", None, dtypes=SINGLE),
}
_MEMBER_WITHOUT_SERIES = {
    "recipe": {**_RECIPE, "power": integer(1, 1)},
    **_POSTERIOR,
    "parts": map_of(_PART),
    "constant": array("outputs"),
    "root": array(None),
}
_WEIGHTS = also(array("members", low=0, high=1), _sum_to_one)
_LINK = {
    "mixing": array("outputs", "outputs"),
    "offset": array("outputs"),
    "usual_variance": number(),
    "lapse": number(0, 0.999),
    "frequencies?": maybe(also(array("outputs", low=0, high=1), _sum_to_one)),
    "nothing?": number(0, 1),
}
_LEFT_OUT = {
    "y": array("left out", low=-RAW, high=RAW, dtypes=(*EITHER, torch.int64)),
    "mean": array("left out", "outputs"),
    "variance": array("left out"),
    "variances": array("members", "left out"),
    "groups": maybe(integers("left out")),
    "exact": bool,
    "means?": maybe(array("members", "left out", "outputs", dtypes=SINGLE)),
    "rows?": maybe(integers("left out")),
}
_FACT_SCORES = {  # in units of the user's
    "medians low high": array("facts", low=-RAW, high=RAW),
    "units": array("facts", low=POSITIVE, high=RAW),
    "least": array("facts", low=0, high=RAW),
    "reference": array(None, "facts", dtypes=SINGLE),
    "middle upper": number(-RAW, RAW),
    "always?": maybe(integers(None, high=1)),
}


def _statistic_channels(scores: Any, at: Place) -> None:
    known, channels = len(scores["medians"]), 0 if scores.get("always") is None else len(scores["always"])
    at.demand(channels * len(OF_CHANNELS) <= known, f"has statistics of fewer than {channels} channels")


_NOVELTY = {
    "weights": array("members", low=0, high=1),
    "centres": array("members"),
    "widths": array("members", low=POSITIVE),
    "middle upper": number(),
    "facts": also(_FACT_SCORES, _statistic_channels),
    "left_out": array("members", "known", dtypes=SINGLE),
    "left_out_facts": array("known"),
    "labels": maybe(integers("known", high=_MOST_CLASSES)),
}
_RECALIBRATION = {"degrees": number(2.01, 1e9), "scale": number(1e-6, 1e6)}
_COMMITTEE = {
    "weights": _WEIGHTS,
    "link": maybe(_LINK),
    "recalibration": maybe(_RECALIBRATION),
    "left_out?": maybe(_LEFT_OUT),
    "novelty?": maybe(_NOVELTY),
}


def _members(state: Any, at: Place) -> None:
    """That members are made of kernels that there are, and outputs are classes or one number."""
    known, outputs = set().union(*map(_kernels, state["blocks"])), at.sizes["outputs"]
    for member in state["members"]:
        recipe = member["recipe"]
        for name, _ in recipe["weights"]:
            at.demand(name in known, f"has a member of the kernel {describe(name)}, which none of its blocks has")
        exact, whole = member.get("others"), recipe["power"] == 1 or member.get("norms") is not None
        extended = [block for block in state["blocks"] if block.get("extended")]
        at.demand(
            exact is None or {name for name, _ in recipe["weights"]} <= set().union(*map(_kernels, extended)),
            f"has a member {describe(recipe['name'])} of all series, but not of kernels with features of all",
        )
        whole &= exact is None or recipe["power"] == 1 or exact["norms"] is not None
        at.demand(whole, f"lacks the norms of the member {describe(recipe['name'])}, which has a power")
    at.demand(outputs == 1 or state["link"] is not None, f"has {outputs} outputs but no link of classes")


def _extended(state: Any, at: Place) -> None:
    """That there are further series where a block or a member has them."""
    others = any(
        part.get(name)
        for part, name in [*((b, "extended") for b in state["blocks"]), *((m, "others") for m in state["members"])]
    )
    at.demand(not others or state.get("others") is not None, "lacks the series of members of all series")
    inside = [block for block in state["blocks"] if block.get("extended")]
    at.demand(
        all(block["kind"] not in ("kernel", "lifted") for block in inside),
        "has a kernel without features, but of all series",
    )


def _stamps(state: Any, at: Place) -> None:
    stamped = state["landmarks"]["times"] is not None
    for block in state["blocks"]:
        transform = block["state"].get("transform")
        timed = transform and transform["options"]["time"]
        right = not timed or (transform["duration"] is not None) == stamped
        at.demand(right, "has time stamps in some of its landmarks and blocks, but not in others")


def _parts(state: Any, at: Place) -> None:
    """That members without series have weights for parts that there are."""
    widths = {str(number): len(centre) for number, centre in enumerate(state["centres"])}
    for member in state["members"]:
        for key, part in member["parts"].items():
            at.demand(key in widths, f"has weights for the part {describe(key)} of {len(widths)}")
            count, width, rank = len(part["weights"]), widths[key], len(member["root"])
            at.demand(count == width, f"has {count} weights for the {width} features of part {key}")
            at.demand(part["factor"].shape[1] == rank, f"has a factor of part {key} that is not of rank {rank}")


_COMMITTEES = by_kind(
    "kind",
    {
        "views": also(
            {
                "standard": _STANDARD,
                "landmarks": _series("landmarks"),
                "others?": _series("others"),
                "blocks": _blocks(True),
                "members": list_of(_MEMBER, least=1, most=10**4, size="members"),
                **_COMMITTEE,
                "class_weights": maybe(array("outputs", low=POSITIVE)),
            },
            _stamps,
            _extended,
            _members,
        ),
        "weights": also(
            {
                "standard": _STANDARD,
                "blocks": _blocks(False, "linear", "path", "windows", "spectrum", "features", "facts"),
                "centres": list_of(array(None, low=-RAW, high=RAW)),
                "members": list_of(_MEMBER_WITHOUT_SERIES, least=1, most=10**4, size="members"),
                **_COMMITTEE,
            },
            _members,
            _parts,
        ),
    },
)

# Estimators.

_SPECTROGRAM = {
    "rate": number(1e-100, 1e100),
    "nfft": integer(2, 2**20),
    "overlap": integer(0, 2**20),
    "low high": maybe(number()),
    "first_bin last_bin": maybe(integer(0, 2**20)),
    "log standardise": bool,
    "window": plain,
}
_PREPARATION = {
    "options": {
        "time_channel": maybe(integer(-_MOST_CHANNELS, _MOST_CHANNELS)),
        "mask": bool,
        "max_points": maybe(integer(1)),
        "spectrogram": maybe(_SPECTROGRAM),
    },
    "raw_channels": integer(1, size="channels of X"),
    "fill": list_of(number(-RAW, RAW), least=1),
    "gap_share": number(0, 1),
}


def _time_format(reading: Any, at: Place) -> None:
    """The options of reading, with what the fit knows of time."""
    if isinstance(reading, Mapping) and "time_format" in reading:
        try:
            TimeFormat.of_state(reading["time_format"])
        except ValueError as error:
            at.demand(False, f"is wrong: {error}")


_FACTS = {
    "channel_names_": list_of(str, least=1, most=_MOST_CHANNELS, size="channels of X"),
    "n_channels_": integer(1, size="channels of X"),
    "length_range_": (integer(1), integer(1)),
    "fingerprint_": str,
    "n_series_": integer(1),
    "n_groups_?": maybe(integer(2)),
    "n_iter_?": integer(),
    "n_features_in_?": integer(1),
    "seconds_?": number(0),
    "summary_?": map_of(plain),
    "facts_?": _FACT_LIST,
    "tried_?": list_of((str, number(), number(0, 1)), most=10**4),
    "reading_?": maybe(also(plain, _time_format)),
}
_OF_NUMBERS = {"target_shift_": number(-RAW, RAW), "target_scale_": number(POSITIVE, RAW)}


def _kernel_of_paths(member: Any, at: Place) -> None:
    wanted, count = _path_channels(member["transform"]), member["model"]["kernel"]["channels"]
    at.demand(wanted == count, f"has a kernel of {count} channels, but paths of {wanted}")


_PAPER_MEMBER = {
    "model": GP_SETTINGS,
    "transform": _transform(smallest=POSITIVE, largest=RAW),
    "settings": map_of(plain),
    "score": maybe(number()),
    "history": plain,
}
_PAPER_TENSORS = {
    "weights": _WEIGHTS,
    **{" ".join(f"member0.{name}" for name in names.split()): part for names, part in GP_TENSORS.items()},
}
_PAPER_MODEL = {
    "members": list_of(also(_PAPER_MEMBER, _kernel_of_paths), least=1, most=1, size="members"),
    "sharpness?": number(1e-3, 1e3),
    "recalibration?": maybe(_RECALIBRATION),
    "novelty?": _NOVELTY,
}


def _memory(state: Any, at: Place) -> None:
    """That labels take no more memory than labels need."""
    dtype, labels = _LABELS.fullmatch(state["dtype"]), state["values"]
    at.at("dtype").require(dtype is not None, state["dtype"], "a type of labels")
    characters = int((dtype and dtype[2]) or 0) * len(labels)
    at.demand(characters <= _MOST_CHARACTERS, f"must have at most {_MOST_CHARACTERS} characters in all labels")
    at.demand(not any(isinstance(label, dict | list) for label in labels), "must have labels, not lists")


def _prepared(state: Any, at: Place) -> None:
    """That what comes out of the preparation has the channels of the committee."""
    options, kept, filled = state["options"], state["raw_channels"], len(state["fill"])
    time, channels = options["time_channel"], at.sizes["channels"]
    if time is not None:
        at.demand(-kept <= time < kept, f"has the time channel {time} of {kept}")
        kept -= 1
    count = filled + (kept if options["mask"] else 0)
    whole = filled == kept if options["spectrogram"] is None else filled % max(1, kept) == 0
    at.demand(whole and count == channels, f"has {filled} means and gives {count} channels for {channels}")


def check_model(state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Raises a `SchemaError` for entries of a manifest, their tensors, or other `tensors` that no model can have."""
    place, classes, views = Place("model"), state.get("estimator") == "SigGPClassifier", "committee" in state
    labels = also({"dtype": str, "values": list_of(plain, least=2, size="classes")}, _memory)
    schema = {
        "estimator": {"SigGPClassifier", "SigGPRegressor"},
        "parameters": map_of(plain),
        "facts": _FACTS if classes else {**_FACTS, **_OF_NUMBERS},
        **({"classes": labels} if classes else {}),
        **({"committee": _COMMITTEES} if views else _PAPER_MODEL),
        "preparation": also(_PREPARATION, _prepared),
    }
    check(also(schema, _same_facts) if views else schema, state, place)
    check({} if views else _PAPER_TENSORS, tensors, place.at("tensors"))
    jobs = state["parameters"].get("n_jobs")
    check(maybe(integer(-1)), jobs, place.at("parameters.n_jobs"))
    place.at("parameters.n_jobs").require(jobs != 0, jobs, "a positive integer, or -1")
