"""Draws `docs/accuracy.png` from the tables of resamples in `docs/accuracy.md`: `python docs/accuracy_picture.py`.

For every data set the accuracy and the NLPP of each method, with standard errors.
"""

import re
from pathlib import Path

from matplotlib.figure import Figure

from siggpde.plots.style import AMBER, BLUE, GREEN, ORANGE, PALE, PURPLE

PAGE = Path(__file__).parent / "accuracy.md"
TARGET = Path(__file__).parent / "accuracy.png"
STYLES = {  # marker and colour of every method
    "quant": ("v", AMBER),
    "multirocket": ("D", PURPLE),
    "minirocket": ("s", ORANGE),
    "mr-hydra": ("^", GREEN),
    "siggpde": ("o", BLUE),
}
LETTERS = 9


def table(text: str, title: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard error by data set and method, of the first table after this line."""
    lines = text[text.index(f"\n{title}\n") :].split("\n\n")[1].splitlines()
    head, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    figures = {}
    for name, *cells in rows[1:]:
        pairs = [[float(number) for number in re.findall(r"[\d.]+", cell)] for cell in cells]
        figures[name] = {method: (mean, error) for method, (mean, error) in zip(head[1:], pairs, strict=True)}
    return figures


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    text = text[text.index("### Resamples\n") :]
    figure = Figure(figsize=(8.2, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, title, label in zip(axes, ("Accuracy, %:", "NLPP:"), ("accuracy, %", "NLPP"), strict=True):
        rows = table(text, title)
        names = sorted(rows, key=lambda name: table(text, "NLPP:")[name]["siggpde"][0], reverse=True)
        for method, (marker, colour) in STYLES.items():
            means, errors = zip(*(rows[name][method] for name in names), strict=True)
            style = {"marker": marker, "color": colour, "markersize": 6 if method == "siggpde" else 5}
            ax.errorbar(means, range(len(names)), xerr=errors, linestyle="none", elinewidth=0.8, label=method, **style)
        ax.set_yticks(range(len(names)), names, size=LETTERS)
        ax.set_xlabel(label, size=LETTERS)
        ax.tick_params(labelsize=LETTERS, length=2)
        ax.grid(axis="y", color=PALE, linewidth=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    axes[1].set_xscale("log")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside upper center", ncols=5, frameon=False, fontsize=LETTERS)
    figure.savefig(TARGET, dpi=130)


if __name__ == "__main__":
    main()
