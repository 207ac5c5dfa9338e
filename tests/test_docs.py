"""Every Python example of the README and the manual runs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?P<indent>[ \t]*)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """The ``python`` blocks of a page with the line at which each one's code starts."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        indent = match["indent"]
        code = "".join(line.removeprefix(indent) for line in match["code"].splitlines(keepends=True))
        yield text.count("\n", 0, match.start("code")) + 1, code


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
            # Blank lines in front make the line numbers of a traceback those of the page.
            exec(compile("\n" * (line - 1) + code, name, "exec"), namespace)
        except Exception as error:
            pytest.fail(f"{name}, block at line {line}, line {_line_of(error, name)}: {error!r}")


def test_the_readme_has_an_example():
    assert ROOT / "README.md" in with_examples()


def _line_of(error: Exception, name: str) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    found, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == name:
            found = step.tb_lineno
        step = step.tb_next
    return found
