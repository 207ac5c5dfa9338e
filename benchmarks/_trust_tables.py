"""The records of `trust.py` as Markdown tables and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Records = list[dict[str, Any]]


def render(records: Records) -> str:
    parts = []
    for part, section in (
        ("corrupted", _corrupted), ("classes", _classes), ("false_alarms", _false_alarms), ("related", _related),
        ("windows", _windows), ("cost", _cost),
    ):  # fmt: skip
        chosen = [record for record in records if record["part"] == part]
        if chosen:
            parts += section(chosen)
    return "\n\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _corrupted(records: Records) -> list[str]:
    sets = list(dict.fromkeys(record["data"] for record in records))
    kinds = list(dict.fromkeys(record["kind"] for record in records if "auc" in record))
    by_set = {(record["data"], record["kind"]): record for record in records}

    def rows(field: str, form: str, kinds: list[str]) -> list[list[str]]:
        out = []
        for data in sets:
            cells = [by_set.get((data, kind)) for kind in kinds]
            values = [None if cell is None or field not in cell else cell[field] for cell in cells]
            counted = [
                v for v, k in zip(values, kinds, strict=True) if v is not None and k not in ("reversed", "test series")
            ]
            shown = ["" if value is None else format(value, form) for value in values]
            out.append([data, *shown, format(float(np.mean(counted)), form)])
        return out

    largest = {record["data"]: record["largest_class"] for record in records}
    sure = rows("sure", ".2f", ["test series", *kinds])
    for row in sure:
        row.append(f"{largest[row[0]]:.2f}")
    return [
        "**Novelty**, AUC between test series and changed ones (mean without reversed):",
        _table(["", *kinds, "mean"], rows("auc", ".3f", kinds)),
        "**How sure**, the mean of the largest class probability (mean of the changed ones without reversed):",
        _table(["", "test series", *kinds, "mean", "largest class"], sure),
    ]


def _classes(records: Records) -> list[str]:
    rows = []
    for data in dict.fromkeys(record["data"] for record in records):
        values = [record["auc"] for record in records if record["data"] == data]
        rows.append([data, str(len(values)), *(f"{f(values):.3f}" for f in (np.mean, np.min, np.max))])
    mean = float(np.mean([float(row[2]) for row in rows]))
    return [
        f"**A class left out of training**, AUC between test series of the others and of this one; mean {mean:.3f}:",
        _table(["", "classes", "mean AUC", "least", "greatest"], rows),
    ]


def _false_alarms(records: Records) -> list[str]:
    rows = []
    for data in dict.fromkeys(record["data"] for record in records):
        chosen = [record for record in records if record["data"] == data]
        cost = np.mean([record["nlpp"] - record["nlpp_without"] for record in chosen])
        share = 100 * np.mean([record["false"] for record in chosen])
        alarms, tests = (sum(record[key] for record in chosen) for key in ("alarms", "test"))
        rows.append([data, str(chosen[0]["train"]), f"{share:.1f}", f"{alarms} of {tests}", f"{cost:+.4f}"])
    every = [record for record in records if record["train"] >= 200]
    share = 100 * np.mean([record["false"] for record in every])
    alarms, tests = (sum(record[key] for record in records) for key in ("alarms", "test"))
    cost = np.mean([record["nlpp"] - record["nlpp_without"] for record in records])
    rows.append(["all (share: of 200 series or more)", "", f"{share:.1f}", f"{alarms} of {tests}", f"{cost:+.4f}"])
    return [
        "**False alarms** on resampled splits: p at most 0.05, warnings, and what caution adds to the NLPP:",
        _table(["", "training series", "p <= 0.05, %", "warnings", "NLPP"], rows),
    ]


def _related(records: Records) -> list[str]:
    return ["**Related training series**, accuracy in per cent and NLPP:", _by_kind(records)]


def _windows(records: Records) -> list[str]:
    title = "all of them or one of each series, judged on windows at the same places; accuracy in per cent and NLPP:"
    return [f"**Windows of half the length**, by overlap: {title}", _by_kind(records)]


def _by_kind(records: Records) -> str:
    kinds = list(dict.fromkeys(record["kind"] for record in records))
    rows = []
    for data in dict.fromkeys(record["data"] for record in records):
        cells = {record["kind"]: record for record in records if record["data"] == data}
        shown = [f"{100 * cells[k]['accuracy']:.1f} / {cells[k]['nlpp']:.4f}" if k in cells else "" for k in kinds]
        rows.append([data, *shown])
    return _table(["", *kinds], rows)


def _cost(records: Records) -> list[str]:
    last = records[-1]
    seconds = f"{last['with']:.2f} s of CPU, {last['without']:.2f} s without what novelty keeps"
    return [f"**Cost.** A fit to {last['data']} takes {seconds}: {100 * (last['with'] / last['without'] - 1):+.0f} %."]


def draw(records: Records, path: Path) -> None:
    """How sure the model is of test series and of changed ones, data set by data set."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - tables need none

    chosen = [record for record in records if record["part"] == "corrupted"]
    sets = list(dict.fromkeys(record["data"] for record in chosen))
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, layout="constrained")
    for ax, data in zip(axes.flat, sets, strict=False):
        cells = [record for record in chosen if record["data"] == data]
        places = np.arange(len(cells))
        colours = ["#3b6fb6" if cell["kind"] == "test series" else "#d9752b" for cell in cells]
        ax.barh(places, [cell["sure"] for cell in cells], color=colours, height=0.7)
        ax.axvline(cells[0]["largest_class"], color="#555555", linestyle=":", linewidth=1)
        ax.set_yticks(places, [cell["kind"] for cell in cells], fontsize="small")
        ax.invert_yaxis()
        ax.set_xlim(0, 1)
        ax.set_title(data, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("mean of the largest probability")
    figure.savefig(path, dpi=110)
    plt.close(figure)
