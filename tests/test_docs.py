"""The examples of the manual run; those of the README run again where they have left their files."""

from pathlib import Path

import numpy as np
import pytest

from helpers.pages import all_blocks, blocks, run_bash, run_python
from siggpde.datasets import load_pendigits

ROOT = Path(__file__).parents[1]
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if next(blocks(page), None) is not None]
README = ROOT / "README.md"
START = ROOT / "docs" / "index.md"
PICTURE = ROOT / "docs" / "readme.png"


@pytest.mark.parametrize("page", [page for page in PAGES if page != START], ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A page's blocks share one namespace, in order, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(page):
        run_python(code, namespace, page.relative_to(ROOT).as_posix(), line)


def test_examples_run_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    code = [block for block in all_blocks(README.read_text(encoding="utf-8")) if block.language == "python"]
    assert len(code) >= 3
    for _ in range(2):
        namespace: dict[str, object] = {"__name__": "__main__"}
        for block in code:
            run_python(block.code, namespace, "README.md", block.line)
    assert (tmp_path / "model" / "model.json").exists()


def test_the_first_screen_is_that_of_the_manual_and_small():
    text = README.read_text(encoding="utf-8")
    start = text[: text.index("\n## ")]
    assert "make quickstart" in start and "make test" in start and "docs/readme.png" in start
    assert 0 < PICTURE.stat().st_size < 150_000
    pages = (page.read_text(encoding="utf-8") for page in (README, START))
    code, start = ([block.code for block in all_blocks(page)][:3] for page in pages)
    assert code == start and len(code) == 3


@pytest.mark.slow
def test_commands_run_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With a few of the digits in a file, which is as the data set of that name."""
    monkeypatch.chdir(tmp_path)
    digits = load_pendigits()
    train = {"X_train": digits.X_train[:200], "y_train": digits.y_train[:200]}
    np.savez("few.npz", **train, X_test=digits.X_test[:100], y_test=digits.y_test[:100])
    shell = [block for block in all_blocks(README.read_text(encoding="utf-8")) if block.language == "bash"]
    (block,) = [block for block in shell if block.code.startswith("siggpde fit ")]
    assert block.code.count(" pendigits ") + block.code.count(" pendigits\n") == 5
    code = block.code.replace("pendigits", "few.npz")
    first = run_bash(code, "README.md", block.line)
    run_bash(code, "README.md", block.line)
    assert "accuracy" in first and "<img" in (tmp_path / "report.html").read_text(encoding="utf-8")
