"""Hook of the manual's build: formulas become MathML, which browsers draw without any script or font to fetch."""

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
NAMED = re.compile(
    r"(?P<before></m[in]>|</msub>|</mrow>)?<mi>(?P<name>log|exp|max|min)</mi>(?P<after><m[in]>|<msub>|<mrow>)?"
)
BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace every formula that the Markdown extension has marked."""
    content = BLOCK.sub(lambda match: formula(match[1], "block"), content)
    return INLINE.sub(lambda match: formula(match[1], "inline"), content)


def formula(latex: str, display: str) -> str:
    """MathML of a formula; named functions have a thin space beside a letter, which the converter leaves out."""
    return NAMED.sub(_spaced, convert(html.unescape(latex).strip(), display=display))


def _spaced(match: re.Match[str]) -> str:
    space = '<mspace width="0.17em"/>'
    before, after = match["before"] or "", match["after"] or ""
    return f"{before}{space if before else ''}<mi>{match['name']}</mi>{space if after else ''}{after}"
