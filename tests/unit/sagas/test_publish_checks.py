"""What validation finds by reading the frozen article."""

from dataclasses import replace
from typing import Any

import pytest

from execution.sagas.publish_checks import LISTED_MAX, findings, is_link
from execution.sagas.publish_params import PublishParams
from tests.unit.sagas.world import planned

PARAMS = PublishParams.of(planned().params)
HTML = "<p>text</p>"


def found(html: str = HTML, **changed: Any) -> list[tuple[str, str]]:
    return [(finding.code, finding.where) for finding in findings(replace(PARAMS, **changed), html)]


def test_an_article_without_optional_fields_is_in_order() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"title": " "}, ("title_missing", "title")),
        ({"title": "x" * 201}, ("title_too_long", "title")),
        ({"title": "a\u202eb"}, ("hidden_character", "title")),
        ({"slug": "2024"}, ("slug_invalid", "slug")),
        ({"html": "<p> &nbsp; </p><script>x</script>"}, ("content_empty", "content")),
        ({"structured_data": {"@type": "Article"}}, ("structured_data_invalid", "structured_data")),
        ({"structured_data": {"@context": "https://schema.org"}}, ("structured_data_invalid", "structured_data")),
        ({"structured_data": [1]}, ("structured_data_invalid", "structured_data")),
        ({"sources": ("/relative",)}, ("link_invalid", "sources")),
        ({"sources": ("ftp://x.example/",)}, ("link_invalid", "sources")),
        ({"html": '<a href="javascript:alert(1)">x</a>'}, ("link_invalid", "content")),
        ({"html": '<a href="">x</a>'}, ("link_invalid", "content")),
    ],
)
def test_each_thing_that_is_wrong_is_named_with_its_field(changed: dict[str, Any], expected: tuple[str, str]) -> None:
    assert found(**changed) == [expected]


@pytest.mark.parametrize("name", ["meta_description", "sources", "structured_data", "featured_image"])
def test_an_optional_field_is_missed_only_where_the_site_requires_it(name: str) -> None:
    assert found(require=(name,)) == [("required_field_missing", name)]
    given: dict[str, Any] = {
        "meta_description": "x",
        "sources": ("https://x.example/",),
        "featured_image": "artifact://x",
        "structured_data": {"@context": "https://schema.org", "@type": "Article"},
    }
    assert found(require=(name,), **{name: given[name]}) == []


def test_a_graph_of_structured_data_needs_a_type_on_every_node() -> None:
    graph = {"@context": "https://schema.org", "@graph": [{"@type": "Article"}, {}]}
    assert found(structured_data=graph) == [("structured_data_invalid", "structured_data")]
    assert found(structured_data={**graph, "@graph": [{"@type": "Article"}]}) == []


def test_plain_http_is_a_finding_only_where_the_site_requires_https() -> None:
    html = '<p>x<a href="http://x.example/">y</a></p>'
    assert found(html) == []
    assert found(html, require=("links_https",)) == [("link_not_https", "content")]


def test_media_alone_is_content() -> None:
    assert found('<img src="data:image/png;base64,AA">') == []


def test_many_findings_of_one_kind_are_cut() -> None:
    html = "x" + "".join(f'<a href="bad:{n}">y</a>' for n in range(50))
    assert len(found(html)) == LISTED_MAX


@pytest.mark.parametrize(
    ("link", "absolute", "valid"),
    [
        ("https://x.example/a?b=1#c", True, True),
        ("http://127.0.0.1:8080/", True, True),
        ("https://", True, False),
        ("https://x.example:port/", True, False),
        ("https://[::1/", True, False),
        ("https://x.example/a b", True, False),
        ("https://x.example/\u202e", True, False),
        ("/a", False, True),
        ("#part", False, True),
        ("mailto:ann@example.org", False, True),
        ("mailto:ann@example.org", True, False),
        ("data:text/html,x", False, False),
        ("", False, False),
    ],
)
def test_links_are_judged_by_their_form(link: str, absolute: bool, valid: bool) -> None:
    assert is_link(link, absolute=absolute) is valid
