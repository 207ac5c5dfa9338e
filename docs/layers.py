"""Draws `docs/layers.png`, the picture of the layers: `python docs/layers.py`.

The rows are those of the import-linter contract in pyproject.toml, the captions the first sentences of the packages'
docstrings, so that the picture shows what `make lint` enforces.
"""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "siggpde"
GROUPS = {  # the last layer of each group, and its colour
    "cli": "#d9752b",
    "io": "#2f8f5b",
    "estimators": "#d9752b",
    "metrics": "#2f8f5b",
    "committee": "#3b6fb6",
    "series": "#3b6fb6",
    "numerics": "#6ba3d6",
    "progress": "#8a8a8a",
}


def layers() -> list[list[str]]:
    """Packages and modules row by row, the highest layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [[name.strip() for name in row.split("|")] for row in contracts[0]["layers"]]


def caption(name: str) -> str:
    """The first sentence of the docstring of a package or module."""
    file = SOURCES / name / "__init__.py" if (SOURCES / name).is_dir() else SOURCES / f"{name}.py"
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return re.split(r"(?<=[^.])\.(?:\s|$)", " ".join(text.split()))[0].replace("`", "")


def draw(path: Path) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415 - the docs' build reads captions without it

    rows, colours = layers(), dict(GROUPS)
    figure = Figure(figsize=(10, 0.44 * sum(len(row) for row in rows) + 0.5), layout="constrained")
    axes = figure.subplots()
    top, pending = 0.0, []
    for row in rows:
        pending.append((top, row))
        top += len(row)
        colour = next((colours[name] for name in row if name in colours), None)
        if colour is None:
            continue
        for start, names in pending:
            for offset, name in enumerate(names):
                y = -(start + offset)
                axes.add_patch(_box(0, y, 2.1, colour))
                axes.text(1.05, y - 0.41, name, ha="center", va="center", color="white", weight="bold", size=10)
                axes.text(2.25, y - 0.41, caption(name), ha="left", va="center", size=9)
        pending = []
    axes.annotate("", (-0.25, -top + 0.3), (-0.25, -0.3), arrowprops={"arrowstyle": "->", "color": "#555555"})
    axes.text(-0.45, -top / 2, "imports only what is below", rotation=90, ha="center", va="center", size=9)
    axes.set(xlim=(-0.7, 10.5), ylim=(-top, 0.1))
    axes.set_axis_off()
    figure.savefig(path, dpi=120)


def _box(x: float, y: float, width: float, colour: str):
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415

    return FancyBboxPatch((x + 0.05, y - 0.76), width - 0.1, 0.68, boxstyle="round,pad=0.02", color=colour)


if __name__ == "__main__":
    draw(ROOT / "docs" / "layers.png")
