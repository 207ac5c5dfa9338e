"""The check of the manual's links finds what is wrong, and the pages of the repository have none that is."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "docs" / "check_links.py"
OTHER = '<h2 id="there">There</h2><a name="old">old</a>'


def check(*paths: Path | str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *map(str, paths)], capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout


def site_with(folder: Path, link: str) -> Path:
    """A site of two pages and a picture, with this element on the first."""
    (folder / "other").mkdir()
    (folder / "other" / "index.html").write_text(OTHER)
    (folder / "picture.png").write_bytes(b"png")
    (folder / "empty.png").write_bytes(b"")
    (folder / "index.html").write_text(f'<p id="here">\n{link}</p>')
    return folder


RIGHT = [
    '<a href="other/">page</a>',
    '<a href="other/#there">element</a>',
    '<a href="/other/index.html#old">name</a>',
    '<a href="#here">same page</a>',
    '<img src="picture.png">',
    '<a href="https://example.org/any#thing">elsewhere</a>',
    '<a href="mailto:someone@example.org">mail</a>',
    '<pre>&lt;a href="nowhere"&gt;</pre>',
]
WRONG = {
    '<a href="missing/">page</a>': "leads to no file",
    '<a href="other/#missing">element</a>': "lacks",
    '<a href="#missing">same page</a>': "lacks",
    '<img src="missing.png">': "leads to no file",
    '<img src="empty.png">': "empty file",
    '<a href="">nothing</a>': "is empty",
    '<a href="https://no host/">space</a>': "has a space",
    '<a href="https:///page">no host</a>': "has no host",
    '<a href="javascript:alert(1)">script</a>': "neither",
}


def test_links_that_are_wrong_are_named_with_their_line_and_no_others(tmp_path: Path):
    code, said = check(site_with(tmp_path, "\n".join([*WRONG, *RIGHT])))
    assert code == 1 and len(said.splitlines()) == len(WRONG)
    for number, (line, reason) in enumerate(zip(said.splitlines(), WRONG.values(), strict=True), 2):
        assert line.startswith(f"index.html, line {number}: ") and reason in line
    (tmp_path / "index.html").write_text(f'<p id="here">{" ".join(RIGHT)}</p>')
    code, said = check(tmp_path)
    assert code == 0 and "are right" in said


def test_markdown_pages_have_the_anchors_of_github(tmp_path: Path):
    text = "# A title, *here*\n\n## A title, here\n\n```text\n[no](link.md)\n# no heading\n```\n"
    (tmp_path / "other.md").write_text(text)
    page = tmp_path / "page.md"
    page.write_text('[a](other.md#a-title-here) [b](other.md#a-title-here-1) <img src="other.md">\n')
    assert check(page)[0] == 0
    page.write_text("\n[a](other.md#no-heading) [b](missing.md)\n")
    code, said = check(page)
    assert code == 1 and said.count("line 2") == 2
    assert check(tmp_path)[0] == 1
    assert check(tmp_path / "missing")[0] == 1


def test_links_of_the_repository_lead_somewhere():
    code, said = check("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    assert code == 0, said


@pytest.mark.slow
def test_the_manual_builds_and_its_links_lead_somewhere(tmp_path: Path):
    pytest.importorskip("mkdocs", reason="the extra 'docs' is not installed")
    pytest.importorskip("material")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(build, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    code, said = check(tmp_path / "site")
    assert code == 0, said
