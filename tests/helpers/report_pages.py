"""Pages of reports, parsed; and small models to write them of."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from siggpde import SigGPClassifier, SigGPRegressor

SECTIONS = ["data", "model", "quality", "basis", "series", "warnings", "card", "reproduce"]
VOID = {"meta", "img"}
FAST: dict[str, Any] = {"n_features": 20, "members": 2, "views": ["linear", "windows"]}


class Page(HTMLParser):
    """The tags, texts and attributes of a page; an error where tags are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def sections(self) -> list[str | None]:
        return [attributes.get("id") for attributes in self.all("section")]


def parsed(path: str | Path) -> Page:
    return Page(Path(path).read_text(encoding="utf-8"))


def turning(count: int, seed: int = 0, classes: int = 3, channels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Series (count, channels, 12) that turn at a speed which is their class, and the classes."""
    generator = np.random.default_rng(seed)
    y = np.arange(count) % classes
    angle = np.linspace(0, 1, 12) * (y[:, None] - 1.0) * 3 + 0.3 * generator.normal(size=(count, 1))
    waves = np.stack([np.cos(angle + shift) for shift in np.arange(channels)], axis=1)
    return waves + 0.1 * generator.normal(size=waves.shape), np.array([f"turn {speed}" for speed in y])


def classifier(count: int = 60, **settings: Any) -> SigGPClassifier:
    return SigGPClassifier(**{**FAST, **settings}).fit(*turning(count))


def regressor(count: int = 60, **settings: Any) -> SigGPRegressor:
    X, _ = turning(count)
    return SigGPRegressor(**{**FAST, **settings}).fit(X, X[:, 0].mean(axis=1))
