"""`siggpde info`: the installation, or a saved model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from siggpde.cli import options
from siggpde.cli.console import column_table, number, one_line_errors, percent, print_result, summary_table
from siggpde.utils.times import TimeFormat

if TYPE_CHECKING:
    from siggpde.estimators.loading import Estimator
    from siggpde.report.card import ModelFacts
    from siggpde.series import PathOptions

_MAX_NAMES = 20
_UNSET: tuple[Any, ...] = (None, "auto", False)
_DEFAULTS: dict[str, tuple[Any, ...]] = {"keep_series": (True,), "related": ("group",), "exact": (10_000,)}
_NOT_SETTINGS = ("channel_names", "verbose", "checkpoint", "resume")
_MODEL = "A model folder to describe instead of this installation."


@one_line_errors()
def info(
    model: Annotated[Path | None, options.argument(_MODEL, "MODEL")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print versions, instruction set, threads, and which backends are available, or why one is not.

    With MODEL, print its training series, settings, scores and versions instead.
    """
    if model is not None:
        summary = model_summary(model)
        print_result(summary, as_json, lambda: _model_tables(summary, str(model)))
        return
    from siggpde.numerics.backend import installation

    installed = installation()
    machine = installed["machine"]
    rows = [*installed["versions"].items()]
    rows += [("processor", f"{machine['architecture']}, {machine['processors']} usable")]
    rows += [("threads", machine["threads"]), ("SIMD", installed["simd"] or "none (no native core)")]
    for name, backend in installed["backends"].items():
        rows.append((f"{name} backend", "available" if backend["available"] else f"no: {backend['reason']}"))
    print_result(installed, as_json, lambda: [summary_table("siggpde", rows)])


def model_summary(path: Path) -> dict[str, Any]:
    """Returns the summary of a saved model, with the versions that saved it and the time."""
    from siggpde.estimators.loading import load
    from siggpde.persistence.folder import MANIFEST
    from siggpde.persistence.manifest import parse_manifest

    estimator = load(path)
    manifest = parse_manifest((path / MANIFEST).read_bytes(), path / MANIFEST)
    return {**estimator_summary(estimator), "created": manifest.created, "versions": manifest.versions}


def estimator_summary(estimator: Estimator) -> dict[str, Any]:
    """Returns task, training data, members, scores and settings of a fitted estimator, as plain values."""
    from siggpde.report.card import model_facts

    facts, parameters = model_facts(estimator), estimator.get_params(deep=False)
    return {
        "task": facts.task,
        "judged": facts.judged,
        "method": facts.method,
        "likelihood": facts.likelihood,
        "contains": facts.landmarks,
        "members": _members(facts),
        "series": facts.series,
        "groups": facts.groups,
        "channel_names": list(facts.channels),
        "facts": list(facts.fact_names),
        "lengths": list(facts.lengths),
        **estimator.summary_,
        "settings": {key: _plain(value) for key, value in parameters.items() if key not in _NOT_SETTINGS},
        "reading": dict(getattr(estimator, "reading_", {})),
        "seconds": estimator.seconds_,
    }


def _members(facts: ModelFacts) -> list[dict[str, Any]]:
    """Returns the members, for views the heaviest first."""
    if facts.method == "views":
        return [
            {"weight": member.weight, "name": member.name, "kernel": member.kernel, "nlpp": member.score}
            for member in facts.members
        ]
    summaries = []
    for weight, member in zip(facts.committee.weights.tolist(), facts.committee.members, strict=True):
        records = [] if member.history is None else member.history.records
        scored = (one.accuracy for one in reversed(records) if one.accuracy is not None and one.nlpp == member.score)
        summaries.append(
            {
                "weight": weight,
                "paths": _options_in_words(member.transform.options),
                "words": len(member.model.features.words),
                "directions": member.model.features.size,
                "nlpp": None if member.score is None else member.score + math.log(facts.units),
                "accuracy": next(scored, None),
            }
        )
    return summaries


def _model_tables(summary: dict[str, Any], title: str) -> list[Table]:
    rows = model_rows(summary)
    if summary["reading"]:
        reading = {key: value for key, value in summary["reading"].items() if key != "time_format"}
        rows += [("read with", " ".join(options.as_arguments(reading)))] * bool(reading)
        if "time_format" in summary["reading"]:
            rows.append(("time", TimeFormat.of_state(summary["reading"]["time_format"]).words))
    chosen = {key: value for key, value in summary["settings"].items() if value not in _DEFAULTS.get(key, _UNSET)}
    origin: list[tuple[str, Any]] = [("settings", ", ".join(f"{key} {value}" for key, value in chosen.items()))]
    origin.append(("seconds to fit", f"{summary['seconds']:.1f}"))
    if "created" in summary:
        versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
        origin += [("saved", summary["created"]), ("with", versions)]
    return [summary_table(title, rows, origin), member_table(summary)]


def model_rows(summary: dict[str, Any]) -> list[tuple[str, Any]]:
    """Returns rows about the task, the method and the training series."""
    shortest, longest = summary["lengths"]
    names, series = summary["channel_names"], summary["series"]
    if summary["groups"] is not None:
        series = f"{series} in {summary['groups']} groups"
    rows: list[tuple[str, Any]] = (
        [] if summary["judged"] is None else [("accuracy" if "labels" in summary else "error", summary["judged"])]
    )
    rows += [
        ("task", f"{summary['task']}, {summary['likelihood']}"),
        ("method", summary["method"]),
        ("series", series),
        ("1 channel" if len(names) == 1 else f"{len(names)} channels", _listed(names)),
        *([("facts", _listed(summary["facts"]))] if summary["facts"] else []),
        ("points", shortest if shortest == longest else f"{shortest} to {longest}"),
    ]
    if "labels" in summary:
        shown = [f"{label} ({count})" for label, count in summary["labels"].items()]
        rows.append((f"{len(shown)} classes", _listed(shown)))
    else:
        rows.append(("target", f"mean {summary['target_mean']:.4g}, spread {summary['target_spread']:.4g}"))
    if summary["contains"]:
        rows.append(("contains", f"{summary['contains']} of the training series (landmarks)"))
    return rows


def member_table(summary: dict[str, Any]) -> Table:
    """Returns a row for every member: its kernel, or its paths and words; its weight and its scores."""
    members = summary["members"]
    if "kernel" in members[0]:
        rows = [[member["kernel"], f"{member['weight']:.2f}", number(member["nlpp"])] for member in members]
        losses = "leave-one-out" if summary["groups"] is None else "leave-one-group-out"
        title = f"{_models(len(members))}, with {losses} losses (nats a series), by which they were chosen"
        return column_table(title, ["kernel", "weight", "loss"], rows)
    with_accuracy = any(member["accuracy"] is not None for member in members)
    header = ["paths", "words", "weight", "NLPP", *["accuracy"] * with_accuracy]
    rows = []
    for member in members:
        row = [member["paths"], member["words"], f"{member['weight']:.2f}", number(member["nlpp"])]
        rows.append([*row, *([percent(member["accuracy"])] * with_accuracy)])
    return column_table(f"{_models(len(members))}, with validation scores, by which settings were chosen", header, rows)


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _models(count: int) -> str:
    return "One model" if count == 1 else f"{count} models, averaged"


def _options_in_words(options: PathOptions) -> str:
    """Returns how a series becomes a path, in plain English."""
    parts = ["base point" if options.base_point else "no base point"]
    parts += [f"{options.append} channels"] if options.append == "variation" else []
    parts += ["arc-length channel"] if options.append == "arc" else []
    parts += ["lead-lag"] if options.lead_lag else []
    parts += [f"difference {options.difference}"] if options.difference else []
    parts += ["scaled series by series"] if options.scale == "series" else []
    return ", ".join(parts)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
