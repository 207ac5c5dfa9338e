"""The page in a browser, headless Chromium: wide, on a phone, dark, and on paper."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.report_pages import turning
from siggpde import SigGPClassifier

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"),
]
MEASURE = """
<script>
addEventListener("load", () => {
  const root = document.documentElement;
  const small = [...document.images].filter(i => !(i.naturalWidth > 0 && i.clientWidth > 60 && i.clientHeight > 40));
  const wide = [...document.body.querySelectorAll("*")].filter(
    e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".table") && !e.closest("pre"));
  document.title = JSON.stringify({
    images: document.images.length, small: small.length, width: innerWidth, scroll: root.scrollWidth,
    wide: wide.length, paper: getComputedStyle(document.body).backgroundColor,
    filter: getComputedStyle(document.images[0]).filter});
});
</script>
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def page(model: SigGPClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = turning(60, seed=1)
    return Path(model.report(X, y, tmp_path_factory.mktemp("browser") / "report.html", explained=1))


def browse(page: Path, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [CHROMIUM, *FLAGS, *root, f"--user-data-dir={folder / 'profile'}", *more, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)


def measured(page: Path, folder: Path, *more: str) -> dict[str, object]:
    """Sizes that a script measures; it is put into a copy of the page, whose own policy allows no script."""
    html = page.read_text(encoding="utf-8")
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    copy = folder / "measured.html"
    copy.write_text(html.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    sizes = re.search(r"<title>(\{.*?\})</title>", browse(copy, folder, *more, "--dump-dom").stdout)
    assert sizes is not None
    return json.loads(sizes[1].replace("&quot;", '"'))


@pytest.mark.parametrize("width", [1200, 500])
def test_every_figure_has_a_size_and_nothing_is_wider_than_the_page(page: Path, tmp_path: Path, width: int):
    sizes = measured(page, tmp_path, f"--window-size={width},900")
    assert sizes["width"] == width and sizes["scroll"] == width
    assert int(str(sizes["images"])) >= 6 and sizes["small"] == 0 and sizes["wide"] == 0
    assert sizes["filter"] == "none"


def test_on_a_phone_nothing_is_wider_than_the_screen(page: Path, tmp_path: Path):
    """Windows of Chromium are 500 pixels wide or more; a frame of 360 is a page of that width."""
    inner = measured_in_frame(page, tmp_path, 360)
    assert inner["width"] == 360 and inner["scroll"] == 360 and inner["small"] == 0 and inner["wide"] == 0


def measured_in_frame(page: Path, folder: Path, width: int) -> dict[str, object]:
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
    script = MEASURE.replace("document.title = JSON", "parent.postMessage(JSON").replace(
        "document.images[0]).filter});", 'document.images[0]).filter}), "*");'
    )
    (folder / "inner.html").write_text(html.replace("</body>", f"{script}</body>"), encoding="utf-8")
    outer = folder / "outer.html"
    outer.write_text(
        "<script>addEventListener('message', e => { document.title = e.data; });</script>"
        f"<iframe src='inner.html' width='{width}' height='800' style='border:0'></iframe>"
    )
    dumped = browse(outer, folder, "--window-size=800,900", "--virtual-time-budget=10000", "--dump-dom").stdout
    sizes = re.search(r"<title>(\{.*?\})</title>", dumped)
    assert sizes is not None, dumped[:500]
    return json.loads(sizes[1].replace("&quot;", '"'))


def test_dark_pages_are_dark_and_their_figures_too(page: Path, tmp_path: Path):
    dark = measured(page, tmp_path, "--window-size=1200,900", "--blink-settings=preferredColorScheme=0")
    assert dark["paper"] == "rgb(21, 24, 27)" and "invert" in str(dark["filter"])


def test_a_screenshot_and_a_print_say_nothing_on_the_console(page: Path, tmp_path: Path):
    picture, paper = tmp_path / "shot.png", tmp_path / "page.pdf"
    shot = browse(page, tmp_path, "--window-size=1200,3000", f"--screenshot={picture}")
    printed = browse(page, tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    for run in (shot, printed):
        assert "CONSOLE" not in run.stderr, run.stderr
    assert picture.stat().st_size > 50_000 and paper.read_bytes().startswith(b"%PDF")
    assert paper.stat().st_size > 30_000
