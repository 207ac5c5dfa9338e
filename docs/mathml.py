"""Hook of the manual's build: formulas become MathML, which browsers draw without any script or font to fetch."""

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace every formula that the Markdown extension has marked."""
    content = BLOCK.sub(lambda match: convert(html.unescape(match[1]).strip(), display="block"), content)
    return INLINE.sub(lambda match: convert(html.unescape(match[1]).strip()), content)
