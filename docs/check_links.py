"""Checks the links of the manual and of the repository's own pages: `python docs/check_links.py site README.md`.

A folder is a built site: every link, anchor and image of its HTML pages has to lead to a file of the site, and to an
element of that name. A Markdown file is a page that is read in the repository: its links lead to files beside it, and
to headings as GitHub names them. Links to other sites are looked at, but never opened. The exit code is 1 if one is
wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKING = {"href": ("a", "link"), "src": ("img", "script", "source", "iframe")}
FENCE = re.compile(r"^(```+|~~~+).*?^\1", re.MULTILINE | re.DOTALL)
MARKDOWN_LINK = re.compile(r"\]\(\s*<?([^)\s>]*)>?[^)]*\)")
MARKDOWN_IMAGE = re.compile(r"<(?:img|a)\s[^>]*?(?:src|href)=\"([^\"]*)\"")
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
HOST = re.compile(r"^[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?$", re.IGNORECASE)


class Page(HTMLParser):
    """The names of the elements of an HTML page, and the links in it with their lines."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[tuple[int, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" or (key == "name" and tag == "a"):
                self.names.add(value or "")
            elif tag in LINKING.get(key, ()):
                self.links.append((self.getpos()[0], value or ""))


def problems_of_site(site: Path) -> list[str]:
    """One line for each link of the site's pages that leads nowhere."""
    pages = sorted(site.rglob("*.html"))
    if not pages:
        return [f"{site}: there is no HTML page"]
    problems = []
    for page in pages:
        for line, link in _read(page).links:
            reason = _problem(link, page, site)
            if reason:
                problems.append(f"{page.relative_to(site)}, line {line}: {link!r} {reason}")
    return problems


def problems_of_markdown(page: Path) -> list[str]:
    """One line for each link of a Markdown page that leads nowhere in the repository."""
    text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text(encoding="utf-8"))
    problems = []
    for pattern in (MARKDOWN_LINK, MARKDOWN_IMAGE):
        for match in pattern.finditer(text):
            reason = _problem(match[1], page, page.parent)
            if reason:
                problems.append(f"{page}, line {text.count(chr(10), 0, match.start()) + 1}: {match[1]!r} {reason}")
    return problems


def _problem(link: str, page: Path, root: Path) -> str | None:
    """What is wrong with a link of this page, if anything is."""
    if not link or any(character.isspace() for character in link):
        return "is empty" if not link else "has a space in it"
    try:
        parts = urlsplit(link)
    except ValueError as error:
        return f"is no address: {error}"
    if parts.scheme in ("http", "https"):
        return None if HOST.match(parts.netloc) else "has no host"
    if parts.scheme in ("mailto", "data"):
        return None if parts.path else "has nothing behind its scheme"
    if parts.scheme or parts.netloc:
        return "is neither a page of this site nor of another"
    path = unquote(parts.path)
    target = root / path.lstrip("/") if path.startswith("/") else page.parent / path if path else page
    if page.suffix == ".html" and target.is_dir():
        target = target / "index.html"
    if not target.exists():
        return "leads to no file"
    if target.is_file() and not target.stat().st_size:
        return "leads to an empty file"
    if parts.fragment and target.suffix in (".html", ".md"):
        names = _headings(target) if target.suffix == ".md" else _read(target).names
        if unquote(parts.fragment) not in names:
            return "has an anchor that the page lacks"
    return None


@cache
def _read(page: Path) -> Page:
    return Page(page.read_text(encoding="utf-8"))


@cache
def _headings(page: Path) -> frozenset[str]:
    """Anchors that GitHub gives to the headings of a Markdown page."""
    return frozenset(_slugs(FENCE.sub("", page.read_text(encoding="utf-8"))))


def _slugs(text: str) -> Iterator[str]:
    seen: dict[str, int] = {}
    for match in HEADING.finditer(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])  # a link in a heading counts by its text
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        yield f"{slug}-{count}" if count else slug


def main(paths: list[str]) -> int:
    if not paths:
        print("usage: python docs/check_links.py FOLDER-OR-PAGE ...", file=sys.stderr)
        return 2
    problems: list[str] = []
    for path in map(Path, paths):
        if not path.exists():
            problems.append(f"{path}: there is no such file or folder")
        else:
            problems += problems_of_site(path) if path.is_dir() else problems_of_markdown(path)
    print("\n".join(problems) if problems else f"links of {', '.join(paths)} are right")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
