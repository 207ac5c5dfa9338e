"""Every Python example of the manual runs; those of the README and of the start page, the same, are in test_readme."""

from pathlib import Path

import pytest

from helpers.pages import PageError, blocks, run_python

ROOT = Path(__file__).parents[1]
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "index.md"]


def with_examples() -> list[Path]:
    return [page for page in PAGES if next(blocks(page), None) is not None]


@pytest.mark.parametrize("page", with_examples(), ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A page's blocks share one namespace, in order, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    name = page.relative_to(ROOT).as_posix()
    for line, code in blocks(page):
        try:
            run_python(code, namespace, name, line)
        except PageError as error:
            pytest.fail(str(error))
