"""Markdown to HTML, titles to slugs, and characters that hide."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.content import (
    COST_MAX,
    ContentRefused,
    cost,
    plain_text,
    read,
    render,
    with_structured_data,
)
from execution.hidden import suspicious_characters
from execution.slugs import SLUG_BYTES_MAX, is_slug, slugify
from server.cli.output import visible


def html(markdown: str) -> str:
    return render(markdown.encode(), "markdown").html


def test_headings_images_code_emoji_and_east_asian_text_are_kept() -> None:
    made = html("# Ü “q” 漢字 😀\n\n![Tasse](/tasse.png)\n\n```python\nif a < b & c:\n```\n\n~~alt~~\n")
    assert "<h1>Ü “q” 漢字 😀</h1>" in made
    assert 'src="/tasse.png"' in made
    assert 'alt="Tasse"' in made
    assert '<pre><code class="language-python">if a &lt; b &amp; c:\n</code></pre>' in made
    assert "<s>alt</s>" in made


def test_tables_keep_the_alignment_of_their_cells() -> None:
    made = html("|a|b|\n|:-|-:|\n|1|2|\n")
    assert '<td style="text-align:right">2</td>' in made


def test_the_same_markdown_always_becomes_the_same_bytes() -> None:
    text = "# a\n\n<b class='x' id=\"y\" title=z>raw</b> & [l](https://a.example/?b=1&c=2)\n"
    assert {html(text) for _ in range(20)} == {html(text)}


@pytest.mark.parametrize("name", ["html", "blocks"])
def test_html_and_blocks_pass_through_byte_for_byte(name: str) -> None:
    given_bytes = "\ufeff<!-- wp:html -->\r\n<script>1</script>&amp;&\t\n".encode()
    assert render(given_bytes, name).html.encode() == given_bytes


@pytest.mark.behaviour("threat.22")
@pytest.mark.parametrize(
    ("raw", "removed"),
    [
        ("<script>alert(1)</script>", "script"),
        ("<b onclick=alert(1)>x</b>", "b[onclick]"),
        ("<a href='javascript:alert(1)'>x</a>", "a[href]"),
        ("<a href='java\tscript:alert(1)'>x</a>", "a[href]"),
        ("<iframe src=https://x.example></iframe>", "iframe"),
        ("<img src=data:image/svg+xml,x>", "img[src]"),
        ("<form action=/x><input></form>", "form"),
        ("<!-- hidden -->", "comment"),
    ],
)
def test_raw_html_in_markdown_loses_what_is_not_text_and_says_what(raw: str, removed: str) -> None:
    rendered = render(f"before {raw} after".encode(), "markdown")
    assert removed in rendered.removed
    assert not any(bad in rendered.html for bad in ("alert", "iframe", "svg", "<form", "hidden"))
    assert "before" in rendered.html
    assert "after" in rendered.html


def test_harmless_raw_html_in_markdown_is_kept_and_nothing_is_reported() -> None:
    rendered = render(b"<details><summary>More</summary>x<sup>2</sup></details>", "markdown")
    assert rendered.removed == ()
    assert "<summary>More</summary>x<sup>2</sup>" in rendered.html


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(ContentRefused) as caught:
        render(b"\xff\xfe", "markdown")
    assert caught.value.code == "not_utf8"


@pytest.mark.parametrize("unit", ["![", "[", "*a ", "<", "&a", "|a", "|1|2|\n", "[a]: /x\n", "`a` ", "<div>"])
def test_hostile_markdown_is_refused_before_it_is_parsed(unit: str) -> None:
    with pytest.raises(ContentRefused) as caught:
        render((unit * (1_048_576 // len(unit))).encode(), "markdown")
    assert caught.value.code == "too_complex"


def test_many_raw_tags_are_refused_because_cleaning_nested_ones_is_slow() -> None:
    with pytest.raises(ContentRefused):
        render(("<div>" * 5_000).encode(), "markdown")


def test_a_mebibyte_of_prose_is_cheap() -> None:
    prose = "The quick *brown* fox [jumps](https://x.example/) over the `dog`. " * 8 + "\n\n"
    assert cost(prose * (1_048_576 // len(prose))) < COST_MAX / 10


@pytest.mark.behaviour("threat.22")
def test_structured_data_cannot_end_its_own_element() -> None:
    made = with_structured_data("<p>x</p>", {"name": "</script><script>alert(1)&"}, "html")
    assert made.count("</script>") == 1
    assert made.startswith("<p>x</p>\n<script")
    assert "\\u003c/script\\u003e" in made


def test_structured_data_in_block_markup_is_a_block_of_its_own() -> None:
    made = with_structured_data("<!-- wp:paragraph -->\n", {"@type": "Article"}, "blocks")
    assert made.endswith("<!-- wp:html -->\n" + made.splitlines()[-2] + "\n<!-- /wp:html -->\n")
    assert with_structured_data("x", None, "blocks") == "x"


def test_plain_text_is_what_a_reader_reads() -> None:
    source = "<h1>Q &amp; A</h1><p>one<br>two <b>three</b></p><script>no</script><style>no</style>"
    assert plain_text(source) == "Q & A one two three"


def test_links_and_media_are_found_in_html() -> None:
    found = read('<a href="/a">x</a><img src="/b.png"><a name=x>y</a>')
    assert found.links == ("/a", "/b.png")
    assert found.shows
    assert not read("<p>only text</p>").shows


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Über Straßen & Wege: 50% mehr!", "ueber-strassen-and-wege-50-mehr"),
        ("Tom & Jerry’s <b>", "tom-and-jerrys-b"),
        ("Crème brûlée, señor Łukasz", "creme-brulee-senor-lukasz"),
        ("Top 10", "top-10"),
        ("2024", "article-2024"),
        ("Feed", "article-feed"),
        ("remit-" + "a" * 24, "article-remit-" + "a" * 24),
        ("😀 Kaffee 漢字", "kaffee"),
    ],
)
def test_titles_become_readable_slugs(title: str, slug: str) -> None:
    assert slugify(title) == slug


def test_titles_without_latin_letters_get_a_stable_slug_each() -> None:
    slugs = [slugify(title) for title in ("東京", "京都", "🎉", "日本 2024", "中国 2024")]
    assert len(set(slugs)) == 5
    assert all(is_slug(slug) for slug in slugs)
    assert slugify("東京") == "article-cmabnmsztp"


def test_a_long_title_is_cut_between_words() -> None:
    slug = slugify("ärger " * 60)
    assert len(slug) <= SLUG_BYTES_MAX
    assert set(slug.split("-")) == {"aerger"}


@given(st.text(max_size=400))
def test_every_title_becomes_a_valid_slug_equal_for_all_unicode_forms(title: str) -> None:
    slug = slugify(title)
    assert is_slug(slug)
    assert slugify(unicodedata.normalize("NFD", title)) == slugify(unicodedata.normalize("NFC", title)) == slug
    assert slugify(slug) == slug


@pytest.mark.parametrize(
    "text", ["", "a--b", "-a", "a-", "Ab", "a_b", "ä", "12", "1-2", "feed", "a" * 191, "a/b", "a\n"]
)
def test_what_a_site_would_rename_is_no_slug(text: str) -> None:
    assert not is_slug(text)


@pytest.mark.behaviour("threat.42")
@pytest.mark.parametrize(
    ("char", "kind"),
    [
        ("\u202e", "bidi"),
        ("\u2066", "bidi"),
        ("\u200b", "invisible"),
        ("\ufeff", "invisible"),
        ("\u00ad", "invisible"),
        ("\u3164", "invisible"),
        ("\u200d", "joiner"),
        ("\u2028", "separator"),
        ("\x00", "control"),
        ("\x7f", "control"),
        ("\x85", "control"),
        ("\U000e0041", "tag"),
        ("\ufe0f", "selector"),
        ("\U000e0100", "selector"),
        ("\ud800", "surrogate"),
        ("\ue000", "private"),
        ("\ufdd0", "unassigned"),
    ],
)
def test_what_hides_is_found_with_its_place_and_name(char: str, kind: str) -> None:
    (found,) = suspicious_characters(f"ab{char}c")
    assert (found.position, found.char, found.kind) == (2, char, kind)
    assert found.name.startswith(f"U+{ord(char):04X} ")
    assert visible(f"ab{char}c") == f"ab<U+{ord(char):04X}>c", "what is named is marked"


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\r\nwith lines",
        "café – “quotes” 50\u202f% 1\u00a0000",
        "👨‍👩‍👧 ❤️ 1️⃣ ™️ 👋🏽",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "क\u094d\u200dष",
        "漢字 かな 한글",
    ],
)
def test_honest_text_hides_nothing(text: str) -> None:
    assert suspicious_characters(text) == ()
    assert visible(text, keep="\t\r\n") == text


def test_bytes_smuggled_in_selectors_after_an_emoji_are_found() -> None:
    assert len(suspicious_characters("😀\ufe0f\ufe0e\ufe01\U000e0120")) == 3


@pytest.mark.behaviour("threat.42")
def test_tag_characters_outside_a_known_flag_are_found() -> None:
    assert len(suspicious_characters("🏴\U000e0069\U000e0067\U000e006e\U000e007f")) == 4
