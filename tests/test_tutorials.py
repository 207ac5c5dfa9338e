"""The tutorials run as they stand, make the pictures that they show, and print what they say; so do the notebooks."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.pages import all_blocks, differences, missing_data, outputs, pictures, run_page, run_python

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
PAGES = sorted(FOLDER.glob("*.md"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 120_000  # bytes of a picture


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to run in, where pictures are drawn without a window."""
    from matplotlib import pyplot  # noqa: PLC0415 - the other tests need none

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda: None)
    pyplot.switch_backend("Agg")
    yield tmp_path
    pyplot.close("all")


def need_data(text: str) -> None:
    missing = missing_data(text)
    if missing:
        pytest.skip(f"needs the data set {', '.join(missing)}: set SIGGPDE_DATA to a folder that has it")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs_and_shows_what_its_code_makes(page: Path, folder: Path):
    text = page.read_text(encoding="utf-8")
    need_data(text)
    printed = run_page(text, page.name)
    for name in pictures(text):
        assert (folder / name).is_file(), f"{page.name} shows pictures/{name}, which its code does not write"
    for code, shown in outputs(text).items():
        wrong = differences(shown.code, printed[code])
        assert not wrong, f"{page.name}, output at line {shown.line}: " + "; ".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, folder: Path):
    """Its cells are plain Python without magics, so they do in a namespace what they do in a kernel."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    need_data("\n".join(codes))
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(codes):
        run_python(code, namespace, f"{path.name}, code cell {number}")
    assert list(folder.glob("*.png"))


def test_a_notebook_is_its_page(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "make", raising=False)
    import make  # pyright: ignore[reportMissingImports] # noqa: PLC0415 - found by the line above

    assert sorted(make.NOTEBOOKS) == [path.stem for path in NOTEBOOKS]
    for path in NOTEBOOKS:
        page = path.with_suffix(".md")
        assert path.read_text(encoding="utf-8") == make.notebook(page), f"run docs/tutorials/make.py {page.stem}"


def test_pictures_are_there_and_small():
    shown = [name for page in PAGES for name in pictures(page.read_text(encoding="utf-8"))]
    there = {path.name: path.stat().st_size for path in (FOLDER / "pictures").iterdir()}
    assert sorted(shown) == sorted(there)
    assert all(size < LARGEST for size in there.values())


def test_output_is_told_from_other_text():
    first = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
    page = f"{first}```text\nother\n```\n\n```bash\nls\n```\nthen\n```text\nx\n```\n"
    (code, shown), *others = outputs(page).items()
    assert (code.code, shown.code) == ("print(1)\n", "1\n") and not others
    assert len(all_blocks(page)) == 5


def test_numbers_of_an_output_may_differ_a_little_and_words_may_not():
    shown, same = "accuracy  0.95 of 320\n", ("accuracy 0.95 of 320", "accuracy 0.96 of 321")
    other = ("accuracy 0.90 of 320", "accuracy 0.95 of 400", "Accuracy 0.95 of 320", "accuracy 0.95 of 320\nmore")
    assert not any(differences(shown, printed) for printed in same)
    assert all(differences(shown, printed) for printed in other)


def test_data_sets_that_are_nowhere_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of every page, as on a machine without data: what comes with the package is there."""
    monkeypatch.setenv("SIGGPDE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    missing = {page.stem: missing_data(page.read_text(encoding="utf-8")) for page in PAGES}
    assert missing["rain"] == ["JenaWeather2020", "JenaWeatherExtra"] and missing["gestures"] == ["UWaveGestureLibrary"]
    assert not missing["own-csv"] and not missing["novelty"]
