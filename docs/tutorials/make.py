"""Runs the tutorials: writes their pictures, the output that they show, and the notebooks.

    SIGGPDE_DATA=folder python docs/tutorials/make.py            # all pages
    SIGGPDE_DATA=folder python docs/tutorials/make.py gestures   # some

Every page is run in a folder of its own. The pictures it shows are taken from there to `pictures`; the `text` block
after a block of code becomes what that code printed. A notebook has the text and the code of its page, and no output.
"""

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

from helpers.pages import PICTURE, all_blocks, outputs, pictures, run_page  # noqa: E402 - found by the line above

NOTEBOOKS = ("gestures", "irregular", "regression")


def write_page(page: Path) -> None:
    """Run a page; write its pictures and its output."""
    text = page.read_text(encoding="utf-8")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            printed = run_page(text, page.name)
        finally:
            os.chdir(before)
        for name in pictures(text):
            (HERE / "pictures" / name).write_bytes((Path(folder) / name).read_bytes())
    for code, shown in reversed(outputs(text).items()):
        text = f"{text[: shown.start]}```text\n{printed[code].rstrip()}\n```{text[shown.end :]}"
    page.write_text(text, encoding="utf-8")


def notebook(page: Path) -> str:
    """The notebook of a page, JSON of nbformat 4.5: text and code, without output.

    Pictures are left out, because the code draws them.
    """
    text = page.read_text(encoding="utf-8")
    left_out = {shown.start for shown in outputs(text).values()}
    cells: list[dict[str, object]] = []

    def add(kind: str, source: str) -> None:
        source = source.strip()
        if source:
            more = {"execution_count": None, "outputs": []} if kind == "code" else {}
            lines = source.splitlines(keepends=True)
            cells.append({"cell_type": kind, "id": f"{page.stem}-{len(cells)}", "metadata": {}, "source": lines} | more)

    place = 0
    for block in all_blocks(text):
        if block.language == "python" or block.start in left_out:
            add("markdown", _without_pictures(text[place : block.start]))
            place = block.end
        if block.language == "python":
            add("code", block.code)
    add("markdown", _without_pictures(text[place:]))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _without_pictures(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", PICTURE.sub("", text))


def main(names: list[str]) -> None:
    import matplotlib  # noqa: PLC0415 - for a notebook alone it is not needed

    matplotlib.use("Agg")
    (HERE / "pictures").mkdir(exist_ok=True)
    for page in [HERE / f"{name}.md" for name in names] or sorted(HERE.glob("*.md")):
        started = time.process_time()
        write_page(page)
        matplotlib.pyplot.close("all")
        print(f"{page.name}: {time.process_time() - started:.0f} CPU seconds")
        if page.stem in NOTEBOOKS:
            page.with_suffix(".ipynb").write_text(notebook(page), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
