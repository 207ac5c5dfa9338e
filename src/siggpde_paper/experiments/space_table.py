"""The paper's table of space complexities, measured: peak memory of the parts of an iteration and how it grows.

Twice: with every number of the recursions stored for the reverse pass, as the algorithms are written and as the orders
count, and as it is here, where the core and the tiles of the baselines compute numbers again instead of storing them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from siggpde_paper.experiments.growth import Plan, Row, growth_panels, growth_table
from siggpde_paper.experiments.measurements import METHODS, STORED, kept_by, measurable, space_of
from siggpde_paper.experiments.report import save_figure
from siggpde_paper.experiments.results import Record, Results

_NOISE = 0.5  # MiB: two measurements of the same differ by less
_STORING = ("siggpde-torch", "gpsig-it", "gpsig-is")
_OURS = ("siggpde", "gpsig-it", "gpsig-is")

_ALL_STORED = [
    Row("C_uu, SigGPDE: the identity", "siggpde-torch", (), "–"),
    Row("C_uu, GPSig-IT", "gpsig-it", ("C_uu",), "n² M²"),
    Row("C_uu, GPSig-IS", "gpsig-is", ("C_uu",), "n² M² c n"),
    Row("C_fu, SigGPDE", "siggpde-torch", ("C_fu",), "M B"),
    Row("C_fu, SigGPDE, signatures computed", "siggpde-torch", ("C_fu", "signatures"), "M B l"),
    Row("C_fu, GPSig-IT", "gpsig-it", ("C_fu",), "n² M B l"),
    Row("C_fu, GPSig-IS", "gpsig-is", ("C_fu",), "M B l n c n"),
    Row("diag C_ff, SigGPDE", "siggpde-torch", ("diag C_ff",), "B l²"),
    Row("diag C_ff, GPSig", "gpsig-it", ("diag C_ff",), "B l² c n"),
]
_AS_HERE = [
    Row("C_uu, SigGPDE: the identity", "siggpde", (), "–"),
    Row("C_uu, GPSig-IT", "gpsig-it", ("C_uu",), "n M² + tile"),
    Row("C_uu, GPSig-IS", "gpsig-is", ("C_uu",), "n M² + tile"),
    Row("C_fu, SigGPDE", "siggpde", ("C_fu",), "M B"),
    Row("C_fu, SigGPDE, signatures computed", "siggpde", ("C_fu", "signatures"), "M B"),
    Row("C_fu, GPSig-IT", "gpsig-it", ("C_fu",), "n M B + tile"),
    Row("C_fu, GPSig-IS", "gpsig-is", ("C_fu",), "n M B + tile"),
    Row("diag C_ff, SigGPDE", "siggpde", ("diag C_ff",), "l"),
    Row("diag C_ff, GPSig", "gpsig-it", ("diag C_ff",), "n B + tile"),
]
_KEPT = [
    Row("inducing parameters, SigGPDE: words", "siggpde", (STORED,), "M d"),
    Row("inducing parameters, GPSig-IT: tensors", "gpsig-it", (STORED,), "n² M d"),
    Row("inducing parameters, GPSig-IS: sequences", "gpsig-is", (STORED,), "n M d"),
]


def plans(config: dict[str, Any]) -> tuple[Plan, Plan, Plan, Plan]:
    """Sizes with everything stored; as it is here; larger ones of SigGPDE; and those of inducing variables."""
    stored, here, large, kept = (config[name] for name in ("stored", "tiled", "large", "kept"))
    return (
        Plan("space/stored", stored["base"], stored["grow"]),
        Plan("space/tiled", here["base"], here["grow"]),
        Plan("space/tiled", large["base"], large["grow"]),
        Plan("space/kept", kept["base"], kept["grow"]),
    )


def tasks(config: dict[str, Any], number: int) -> dict[str, Callable[[], Record]]:
    """Every method at every size, each in a process of its own, where the operating system can say what it took.

    Measures the paper's table of space complexities.
    """
    if number > 0 or not measurable():  # memory is the same in every pass
        return {}
    stored, here, large, kept = plans(config)
    listed = [(stored, method, size, False) for method in _STORING for size in stored.sizes()]
    listed += [(here, method, size, True) for method in _OURS for size in here.sizes()]
    listed += [(large, "siggpde", size, True) for size in large.sizes()]
    keeping = {kept.key(method, size): partial(kept_by, method, size) for method in _OURS for size in kept.sizes()}
    return keeping | {
        plan.key(method, size): partial(space_of, method, size, tiled=tiled) for plan, method, size, tiled in listed
    }


def report(config: dict[str, Any], results: Results) -> str:
    if not results.records("space/"):
        return "" if measurable() else "## Space\n\nPeak memory is measured on Linux only.\n"
    stored, here, large, kept = plans(config)
    third = growth_table(results, _KEPT, kept, _mebibytes, _largest, noise=_NOISE)
    first = growth_table(results, _ALL_STORED, stored, _mebibytes, _largest, noise=_NOISE)
    second = growth_table(results, _AS_HERE, here, _mebibytes, _largest, others={"siggpde": large}, noise=_NOISE)
    return (
        "## Space\n\nMiB by which the memory of a fresh process grows to its peak during value and gradient, and the "
        "exponent of its growth, as for time. Parts come one after the other, so that the largest counts. Less than "
        f"{_NOISE} MiB is shown as 0 (in the figure, as {_NOISE}), and exponents rest on larger figures only.\n\n"
        f"With everything stored that the reverse pass needs, as the algorithms are written, SigGPDE in plain torch; "
        f"at the base {stored.spoken()}:\n\n{first}\n\n"
        f"As it is here: SigGPDE by the core, GPSig in tiles that are computed again for the reverse pass; at the base "
        f"{here.spoken()}, exponents of SigGPDE around {large.spoken()}:\n\n{second}\n\n"
        f"What inducing variables keep, at {kept.spoken()}; those of SigGPDE are words, which are not learned:\n\n"
        f"{third}\n\n"
        f"![growth of memory]({_figure(stored, here, results)})\n"
    )


def _mebibytes(value: float) -> str:
    return f"{value:.1f}"


def _largest(record: dict[str, float], parts: tuple[str, ...]) -> float:
    """The largest of some parts: they come one after the other, and what one took is free for the next."""
    return max((record[part] for part in parts if part in record), default=0.0)


def _peak(record: dict[str, float]) -> float:
    """The largest part; where all are noise, the bound of it."""
    return max(_NOISE, *record.values())


def _figure(stored: Plan, here: Plan, results: Results) -> str:
    """The largest part against each size: everything stored above, as it is here below."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    columns = max(len(stored.grow), len(here.grow))
    figure, axes = pyplot.subplots(
        2, columns, figsize=(2.7 * columns, 5.8), layout="constrained", sharey="row", squeeze=False
    )
    for row, plan in zip(axes, (stored, here), strict=True):
        for unused in row[len(plan.grow) :]:
            unused.set_axis_off()
    above = {method: METHODS[method] for method in _STORING}
    below = {method: METHODS[method] for method in _OURS}
    growth_panels(axes[0][: len(stored.grow)], results, stored, above, _peak, "peak MiB, everything stored")
    growth_panels(axes[1][: len(here.grow)], results, here, below, _peak, "peak MiB, as it is here")
    known = {}
    for ax in (axes[1][0], axes[0][0]):
        known |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    for ax in axes[1][: len(here.grow)]:
        ax.axhline(_NOISE, color="#8a8a8a", linestyle=":", linewidth=1, zorder=0)
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=4, frameon=False)
    return save_figure(figure, results.folder, "complexity-space")[0]
