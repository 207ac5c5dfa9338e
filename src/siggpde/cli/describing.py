"""A model in facts and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from siggpde.cli.tables import column_table, fact_table
from siggpde.ensemble.committee import Member
from siggpde.estimators.classifier import SigGPClassifier
from siggpde.estimators.loading import Estimator, load
from siggpde.paths import PathOptions
from siggpde.persistence.folder import MANIFEST
from siggpde.persistence.manifest import parse_manifest
from siggpde.selection.candidates import Candidate, describe

_MOST_LABELS = 20
_NOT_SETTINGS = ("channel_names", "verbose", "checkpoint", "resume")


def describe_model(path: Path) -> dict[str, Any]:
    """The facts of a saved model, and by which versions and when it was saved."""
    estimator = load(path)
    manifest = parse_manifest((path / MANIFEST).read_bytes(), path / MANIFEST)
    return {**estimator_facts(estimator), "created": manifest.created, "versions": manifest.versions}


def estimator_facts(estimator: Estimator) -> dict[str, Any]:
    """What was fitted, on what, and how good it was on left-out series; plain values."""
    committee = estimator.committee_
    classifies = isinstance(estimator, SigGPClassifier)
    parameters = estimator.get_params(deep=False)
    members = zip(committee.weights.tolist(), committee.members, strict=True)
    return {
        "task": "classification" if classifies else "regression",
        "likelihood": type(committee.members[0].model.likelihood).__name__,
        "series": estimator.n_series_,
        "channel_names": list(estimator.channel_names_),
        "lengths": list(estimator.length_range_),
        **estimator.summary_,
        "members": [{"weight": weight, **_member_facts(member)} for weight, member in members],
        "settings": {key: _plain(value) for key, value in parameters.items() if key not in _NOT_SETTINGS},
        "reading": dict(getattr(estimator, "reading_", {})),
        "seconds": estimator.seconds_,
    }


def model_tables(facts: dict[str, Any], title: str) -> list[Table]:
    """Tables of the facts of a model."""
    rows: list[tuple[str, Any]] = [("task", f"{facts['task']}, {facts['likelihood']}")]
    rows += data_rows(facts)
    if facts["reading"]:
        rows.append(("read with", " ".join(f"--{key} {_option(value)}" for key, value in facts["reading"].items())))
    chosen = {key: value for key, value in facts["settings"].items() if value not in (None, "auto", False)}
    made: list[tuple[str, Any]] = [("settings", ", ".join(f"{key} {value}" for key, value in chosen.items()))]
    made.append(("seconds to fit", f"{facts['seconds']:.1f}"))
    if "created" in facts:
        versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        made += [("saved", facts["created"]), ("with", versions)]
    return [fact_table(title, rows, made), member_table(facts)]


def data_rows(facts: dict[str, Any]) -> list[tuple[str, Any]]:
    """Rows about the training series."""
    shortest, longest = facts["lengths"]
    names = facts["channel_names"]
    rows: list[tuple[str, Any]] = [
        ("series", facts["series"]),
        ("1 channel" if len(names) == 1 else f"{len(names)} channels", _listed(names)),
        ("points", shortest if shortest == longest else f"{shortest} to {longest}"),
    ]
    if "labels" in facts:
        shown = [f"{label} ({count})" for label, count in facts["labels"].items()]
        rows.append((f"{len(shown)} classes", _listed(shown)))
    else:
        rows.append(("target", f"mean {facts['target_mean']:.4g}, spread {facts['target_spread']:.4g}"))
    return rows


def member_table(facts: dict[str, Any]) -> Table:
    """A row for every member: how it makes paths, its size, its weight and its scores."""
    members = facts["members"]
    with_accuracy = any(member["accuracy"] is not None for member in members)
    header = ["paths", "words", "weight", "NLPP", *["accuracy"] * with_accuracy]
    rows = []
    for member in members:
        row = [member["paths"], member["words"], f"{member['weight']:.2f}", _number(member["nlpp"])]
        rows.append([*row, *([_percent(member["accuracy"])] * with_accuracy)])
    judged = "leave-one-out" if facts["likelihood"] in ("LeastSquares", "Gaussian") else "validation"
    return column_table(f"{_models(len(members))}, with {judged} scores, by which settings were chosen", header, rows)


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - _MOST_LABELS} more" if len(names) > _MOST_LABELS else ""
    return ", ".join(names[:_MOST_LABELS]) + more


def _models(count: int) -> str:
    return "One model" if count == 1 else f"{count} models, averaged"


def _member_facts(member: Member) -> dict[str, Any]:
    settings = member.settings
    kept = {key: settings[key] for key in ("path_length", "time_scale", "words", "degree")}
    candidate = Candidate(options=PathOptions(**settings["options"]), **kept)
    records = [] if member.history is None else member.history.records
    return {
        "paths": describe(candidate),
        "words": len(member.model.features.words),
        "directions": member.model.features.size,
        "nlpp": member.score,
        "accuracy": next((one.accuracy for one in reversed(records) if one.accuracy is not None), None),
    }


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _option(value: Any) -> str:
    return ",".join(value) if isinstance(value, list | tuple) else str(value)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"
