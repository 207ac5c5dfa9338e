"""Writes `docs/report.png`, the first screen of a report, with headless Chromium: `python docs/report_picture.py`.

The model is fitted to 1000 digits, so that it takes a minute; the page is that of 1000 others.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from siggpde import SigGPClassifier
from siggpde.datasets import load_pendigits

TARGET = Path(__file__).with_name("report.png")
SERIES, WIDTH, HEIGHT = 1000, 1040, 1080


def write_page(folder: Path) -> Path:
    digits = load_pendigits()
    model = SigGPClassifier(n_jobs=None, channel_names=digits.channel_names)
    model.fit(digits.X_train[:SERIES], digits.y_train[:SERIES])
    X, y = digits.X_test[:SERIES], digits.y_test[:SERIES]
    return Path(model.report(X, y, folder / "report.html", title="Handwritten digits", target="digit"))


def shoot(page: Path, picture: Path, folder: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("there is no Chromium to open the page with; Debian has it as the package chromium")
    flags = ["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking"]
    flags += ["--no-sandbox"] if os.geteuid() == 0 else []
    size = f"--window-size={WIDTH},{HEIGHT}"
    profile = f"--user-data-dir={folder / 'profile'}"
    subprocess.run([chromium, *flags, size, profile, f"--screenshot={picture}", page.as_uri()], check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        shoot(write_page(Path(name)), TARGET, Path(name))
