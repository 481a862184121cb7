"""Markdown to HTML that is safe to show: nothing in it can run, and nothing in it loads from elsewhere.

Three fences, one behind the other: raw HTML is not understood but shown as text; what comes out is reduced to the tags
and attributes listed here; and the site's Content-Security-Policy forbids the rest.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import nh3
from django.utils.html import escape
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

# Longer code is shown without colours: they are a comfort, and finding them costs time.
LONGEST_COLOURED = 20_000
LANGUAGE = re.compile(r"[\w+#.-]{1,30}")
# What may stand in an image: pictures that come with the text. SVG is left out, it can hold scripts.
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=\s]+")

TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "pre", "code", "em"),
    *("strong", "s", "a", "img", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "button"),
}
ATTRIBUTES = {
    "a": {"href", "title", "target"},
    "img": {"src", "alt", "title"},
    "ol": {"start"},
    "code": {"class"},
    "span": {"class"},
    "div": {"class", "tabindex", "role", "aria-label"},
    "pre": {"tabindex"},
    "button": {"type", "class", "data-copy"},
    "th": {"class"},
    "td": {"class"},
}


class _Renderer(RendererHTML):
    """The tags that need more than markdown-it gives them."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        words = token.info.split()
        return code_block(token.content, words[0] if words else "")

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return code_block(tokens[idx].content, "")

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A picture that comes with the text is shown; one from elsewhere would tell that somewhere who reads this, so
        it becomes a link that the reader may follow."""
        token = tokens[idx]
        source = str(token.attrGet("src") or "")
        alt = self.renderInlineAsText(token.children, options, env) if token.children else ""
        if PICTURE.fullmatch(source):
            return f'<img src="{escape(source)}" alt="{escape(alt)}">'
        return f'<a href="{escape(source)}" target="_blank">{escape(alt or source)}</a>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        tokens[idx].attrSet("target", "_blank")
        return self.renderToken(tokens, idx, options, env)

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        # A wide table scrolls inside its own frame, which the keyboard must reach.
        return f'<div class="table" tabindex="0" role="group" aria-label="{escape(_("Table"))}"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def _cell(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        # Alignment as a class: styles in attributes are forbidden on this site.
        token = tokens[idx]
        side = re.search(r"text-align:(left|center|right)", str(token.attrGet("style") or ""))
        return f'<{token.tag} class="{side[1]}">' if side else f"<{token.tag}>"

    th_open = _cell
    td_open = _cell


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt(
        "js-default", {"html": False, "linkify": True, "breaks": False, "maxNesting": 40}, renderer_cls=_Renderer
    )
    # Never without a scheme: `settings.py` is no address.
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})  # type: ignore[union-attr]
    parser.validateLink = _is_link  # type: ignore[method-assign, assignment]
    return parser


def _is_link(address: str) -> bool:
    address = address.strip().lower()
    return bool(re.match(r"(?:https?:|mailto:|/(?!/)|#)", address) or PICTURE.match(address[:100] + "="))


_parser = _make_parser()
_formatter: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def code_block(code: str, language: str, *, is_coloured: bool = True) -> str:
    """Code in a frame with the language's name and a button to copy it."""
    name = language if LANGUAGE.fullmatch(language) else ""
    inner = _colour(code, name) if is_coloured else escape(code)
    return (
        f'<div class="code"><div class="code-head"><span>{escape(name)}</span>'
        f'<button type="button" class="copy" data-copy="code">{escape(_("Copy"))}</button></div>'
        f'<pre tabindex="0"><code>{inner}</code></pre></div>\n'
    )


def _colour(code: str, language: str) -> str:
    if not language or len(code) > LONGEST_COLOURED:
        return escape(code)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(code)
    return highlight(code, lexer, _formatter)


def parse_blocks(text: str, env: dict[str, Any]) -> Iterator[list[Token]]:
    """The tokens of a text, one list for each block at the top."""
    block: list[Token] = []
    for token in _parser.parse(text, env):
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def render_tokens(tokens: Sequence[Token], env: dict[str, Any]) -> str:
    return sanitise(_parser.renderer.render(tokens, _parser.options, env))


def render_blocks(text: str) -> list[str]:
    """The HTML of a whole text, one piece for each block at the top."""
    env: dict[str, Any] = {}
    # Parsed to its end first: an address that a link refers to may stand in the last line.
    return [render_tokens(block, env) for block in list(parse_blocks(text, env))]


def sanitise(html: str) -> str:
    return nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_filter_attribute,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel="noopener noreferrer nofollow",
    )


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if _is_link(value) and not value.strip().lower().startswith("data:") else None
    if name == "src":
        return value if PICTURE.fullmatch(value) else None
    return value
