"""The map of the code in docs/design.md and the map from the paper to the code in docs/paper-map.md lead somewhere."""

import re
from importlib import import_module
from pathlib import Path
from pydoc import locate
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "siggpde"
PAPER = ROOT / "src" / "siggpde_paper"
# A row of the paper's map: | in the paper | what it is | `file` `name` |, where the name may be dotted.
ROW = re.compile(r"^\| (?P<paper>[^|]+) \| (?P<meaning>[^|]+) \| (?P<code>[^|]+) \|$", re.MULTILINE)
LINK = re.compile(r"`(?P<file>[\w/]+\.py)` `(?P<name>[\w.]+)`")


def paper_rows() -> list[tuple[str, str, str]]:
    """Every (statement of the paper, file, name)."""
    text = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
    rows = [row for row in ROW.finditer(text) if LINK.search(row["code"])]
    return [(row["paper"].strip(), link["file"], link["name"]) for row in rows for link in LINK.finditer(row["code"])]


def follow(file: str, name: str) -> tuple[ModuleType, Any]:
    """The module of a file and the object of a dotted name in it."""
    package = "" if file.startswith("siggpde_paper/") else "siggpde."
    module = import_module(package + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    target: Any = module
    for part in name.split("."):
        target = getattr(target, part)
    return module, target


def test_the_map_has_the_rows_a_reader_of_the_paper_looks_for():
    text = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
    assert len({paper for paper, _, _ in paper_rows()}) >= 25
    for word in ("Theorem 4.1", "Algorithm 1", "Algorithm 2", "GPSig-IT", "GPSig-IS", "ELBO", "localised impulse"):
        assert word in text


@pytest.mark.parametrize(("paper", "file", "name"), paper_rows())
def test_every_row_of_the_paper_leads_to_a_function_that_names_it(paper: str, file: str, name: str):
    assert (SOURCES / file).is_file() or (ROOT / "src" / file).is_file()
    module, target = follow(file, name)
    assert getattr(target, "__module__", module.__name__) == module.__name__, f"{name} is only imported in {file}"
    assert re.search(r"\bpaper\b|Lemercier|GPSig|Algorithm|Theorem", target.__doc__ or ""), f"{name} names no paper"


def test_files_of_the_design_exist_and_every_package_is_there():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:[\w]+/)+[\w]+\.(?:py|cpp|hpp))`", text))
    assert len(files) > 30
    roots = (SOURCES, ROOT / "src", ROOT)
    assert [file for file in sorted(files) if not any((root / file).is_file() for root in roots)] == []
    packages = [path.parent.name for path in SOURCES.glob("*/__init__.py")]
    packages += [f"siggpde_paper/{path.parent.name}" for path in PAPER.glob("*/__init__.py")]
    assert [name for name in packages if f"`{name}/`" not in text] == []


def expanded(name: str) -> list[str]:
    """Every name that braces stand for: gp.{kernel, model} is gp.kernel and gp.model."""
    match = re.fullmatch(r"([\w.]*)\{(.*)\}", name)
    return [match[1] + part.strip() for part in match[2].split(",")] if match else [name]


def test_the_changelog_leads_to_modules_that_exist():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `[^|]*\| ([^|]*) \|$", text.partition("### Modules that moved")[2], re.MULTILINE)
    assert len(rows) > 30
    for name in (name for row in rows for code in re.findall(r"`([\w.{}, ]+)`", row) for name in expanded(code)):
        assert locate(name if name.startswith("siggpde") else f"siggpde.{name}"), name
