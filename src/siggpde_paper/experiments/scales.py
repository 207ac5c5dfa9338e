"""What learning the channel scales does on PenDigits: scales frozen, the exact gradient, and the authors' gradient.

The paper's gradient of the kernel in the scales is Algorithm 2 by finite differences, which is biased; ours is exact.
All variants have the same seeds, so the same start, validation parts and batches.
"""

from __future__ import annotations

from functools import partial
from statistics import mean
from typing import Any

import torch

from siggpde.numerics.signature_kernel import signature_kernel_diag_scales
from siggpde_paper.experiments import tables
from siggpde_paper.experiments.methods import build, fit_tasks, prepare
from siggpde_paper.experiments.results import Record, Results
from siggpde_paper.experiments.variants import scale_gradient

# The last two nearly coincide: the one below is wider.
_STYLES = (("-", 1.5, "#3b6fb6"), ("--", 1.5, "#d9752b"), ("-", 4.0, "#a8d5ba"), ("-.", 1.5, "#8a4fa3"))


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Every variant as often as `runs` says, and the error of the authors' gradient at the start.

    The paper's section 4 and its Algorithm 2, compared with the exact gradient.
    """
    results.compute({"errors": partial(gradient_errors, config)})
    results.compute(fit_tasks(config, results.folder, runs), jobs)


def gradient_errors(config: dict[str, Any]) -> dict[str, Any]:
    """|g - g'| / |g| of dk/dlog theta at the starting scales: median and largest over series, for each refinement."""
    data = prepare(config)
    x = data.x_train[:: max(1, len(data.x_train) // config["gradient_series"])]
    model = build(config, {"kind": "siggpde", "order": "lexicographic"}, data, 0)
    theta = model.kernel.theta.detach()
    _, exact = signature_kernel_diag_scales(x, theta, tol=1e-10)
    record: dict[str, Any] = {"series": len(x), "theta": theta.tolist(), "refinements": {}}
    for refine in config["refinements"]:
        gradient = scale_gradient(x, theta, refine)
        error = (gradient - exact).norm(dim=1) / exact.norm(dim=1)
        share = float((gradient - exact).sum() / exact.sum())
        record["refinements"][str(refine)] = {
            "median": float(error.median()), "largest": float(error.max()), "bias": share,
            "cosine": float(torch.cosine_similarity(gradient.sum(0), exact.sum(0), dim=0)),
        }  # fmt: skip
    return record


def report(config: dict[str, Any], results: Results) -> str:
    """The table of variants, the errors of the authors' gradient and the figure."""
    columns = tables.FIGURES | {
        "best validation NLPP": lambda records: tables.spread([nlpp for *_, nlpp in _best(records)], 4),
        f"start ({', '.join(config['channels'])})": lambda records: _means([r["theta_start"] for r in records]),
        "end of phase 2": lambda records: _means([record["scales"][-1][2] for record in records]),
        "kept": lambda records: _means([record["theta"] for record in records]),
        "kept from iteration": lambda records: ", ".join(str(step) for _, step, _ in _best(records)),
        "CPU time / iteration of phase 2": lambda records: tables.duration(
            mean(record["seconds_per_iteration"]["hyperparameters"] for record in records)
        ),
        "iterations": tables.iterations_cell,
        "ended by": tables.ended_cell,
    }
    rows = [
        ([method["name"]], list(results.records(f"fit/{name}/").values())) for name, method in config["methods"].items()
    ]
    return tables.page(
        tables.runs_table(["scales"], rows, columns),
        "Scales are means over the runs; those of the end are what the phase of the hyperparameters had reached, and "
        "those kept belong to its best validation NLPP, from which the last phase goes on. Amplitude and q(u) are "
        "learned in all rows.",
        tables.protocol(config),
        _errors(results),
        f"![scales along the iterations]({_figure(config, results)})",
        tables.notes_list(config),
    )


def _best(records: list[Record]) -> list[list[Any]]:
    """Of every run the evaluation (phase, iteration, NLPP) of phase 2 with the least validation NLPP."""
    learned = [[entry for entry in record["validation"] if entry[0] == "hyperparameters"] for record in records]
    return [min(entries, key=lambda entry: entry[2]) for entries in learned]


def _means(scales: list[list[float]]) -> str:
    return ", ".join(f"{mean(channel):.3f}" for channel in zip(*scales, strict=True))


def _errors(results: Results) -> str:
    record = results.get("errors")
    if record is None:
        return ""
    rows = [
        [refine, *(f"{100 * errors[key]:.1f} %" for key in ("median", "largest", "bias")), f"{errors['cosine']:.4f}"]
        for refine, errors in record["refinements"].items()
    ]
    headings = ["refinement", "median error", "largest error", "bias of the sum", "cosine of the sums"]
    return (
        f"The authors' gradient of k(X, X) in log theta against the exact one, {record['series']} training series at "
        f"the starting scales; the sums are over series:\n\n{tables.markdown_table(headings, rows)}"
    )


def _figure(config: dict[str, Any], results: Results) -> str:
    """Scales of the first run along the phase of the hyperparameters, an axis a channel."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    channels = config["channels"]
    figure, axes = pyplot.subplots(1, len(channels), figsize=(3.4 * len(channels), 3.4), layout="constrained")
    for (name, method), (style, width, colour) in zip(config["methods"].items(), _STYLES, strict=False):
        record = results.get(f"fit/{name}/0")
        if record is None:
            continue
        steps = [0, *(step for _, step, _ in record["scales"])]
        for index, ax in enumerate(axes):
            values = [record["theta_start"][index], *(theta[index] for *_, theta in record["scales"])]
            ax.plot(steps, values, style, linewidth=width, color=colour, label=method["name"])
    for ax, channel in zip(axes, channels, strict=True):
        ax.set(xlabel="iteration of phase 2", title=f"scale of {channel}")
        ax.ticklabel_format(useOffset=False)
        ax.locator_params(axis="x", nbins=5)
        ax.spines[["top", "right"]].set_visible(False)
    tables.legend_below(figure, 2)
    return tables.save_figure(figure, results.folder, "scales")
