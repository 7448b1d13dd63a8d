"""What the stand-in claims about WordPress, asked of both: error bodies, roles, slugs, filters, dates."""

import datetime

import pytest

from tests.conformance.beds import Bed, fresh_marker

POSTS = "/wp/v2/posts"


@pytest.mark.parametrize(
    ("method", "path", "fields", "role", "status", "code"),
    [
        ("GET", f"{POSTS}?context=edit", None, None, 401, "rest_forbidden_context"),
        ("GET", f"{POSTS}?context=edit", None, "subscriber", 403, "rest_forbidden_context"),
        ("GET", f"{POSTS}?status=any", None, None, 400, "rest_invalid_param"),
        ("GET", f"{POSTS}?status=bogus", None, "editor", 400, "rest_invalid_param"),
        ("GET", f"{POSTS}/99999999", None, None, 404, "rest_post_invalid_id"),
        ("GET", "/wp/v2/users/me", None, None, 401, "rest_not_logged_in"),
        ("GET", "/wp/v2/nothing", None, "editor", 404, "rest_no_route"),
        ("POST", POSTS, {"title": "x"}, None, 401, "rest_cannot_create"),
        ("POST", POSTS, {"title": "x"}, "subscriber", 403, "rest_cannot_create"),
        ("POST", POSTS, {"title": "x", "status": "publish"}, "contributor", 403, "rest_cannot_publish"),
        ("POST", POSTS, {"title": "x", "status": "bogus"}, "editor", 400, "rest_invalid_param"),
        ("POST", POSTS, {}, "editor", 400, "empty_content"),
        ("POST", POSTS, b"{", "editor", 400, "rest_invalid_json"),
        ("POST", f"{POSTS}/99999999", {"title": "x"}, "editor", 404, "rest_post_invalid_id"),
        ("DELETE", f"{POSTS}/99999999", None, "editor", 404, "rest_post_invalid_id"),
    ],
)
async def test_an_error_has_the_documented_status_and_code(
    bed: Bed, method: str, path: str, fields: object, role: str | None, status: int, code: str
) -> None:
    answered, body = await bed.rest(method, path, fields, role=role)
    assert (answered, body["code"], body["data"]["status"]) == (status, code, status)


async def test_an_account_cannot_touch_the_draft_of_another(bed: Bed) -> None:
    draft = await bed.person("POST", POSTS, {"title": "x"})
    path = f"{POSTS}/{draft['id']}"
    for method, query, expected in (
        ("GET", "?context=edit", "rest_forbidden_context"),
        ("GET", "", "rest_forbidden"),
        ("POST", "", "rest_cannot_edit"),
        ("DELETE", "", "rest_cannot_delete"),
    ):
        fields = {"title": "y"} if method == "POST" else None
        answered, body = await bed.rest(method, path + query, fields, role="author")
        assert (answered, body["code"]) == (403, expected)


async def test_a_draft_is_hidden_from_lists_that_do_not_ask_for_its_status(bed: Bed) -> None:
    slug = f"hidden-{fresh_marker()[:8]}"
    draft = await bed.person("POST", POSTS, {"title": "x", "slug": slug})

    async def ids(query: str, role: str = "editor") -> list[int]:
        rows = await bed.person("GET", f"{POSTS}?slug={slug},{slug}__trashed&context=edit{query}", role=role)
        return [row["id"] for row in rows]

    assert await ids("") == []
    assert await ids("&status=any") == [draft["id"]]
    assert await ids("&status=any,trash", "author") == []
    await bed.person("DELETE", f"{POSTS}/{draft['id']}")
    assert await ids("&status=any") == []
    assert await ids("&status=any,trash") == [draft["id"]]


async def test_an_unknown_parameter_is_ignored_and_hides_nothing(bed: Bed) -> None:
    draft = await bed.person("POST", POSTS, {"title": "x"})
    rows = await bed.person("GET", f"{POSTS}?status=any&context=edit&per_page=100&remit_key=nobody&meta_key=nobody")
    assert draft["id"] in [row["id"] for row in rows]


async def test_a_wrong_password_reads_as_anonymous(bed: Bed) -> None:
    wrong = Bed(url=bed.url, users={"editor": (bed.users["editor"][0], "wrong")}, bounds=bed.bounds)
    status, body = await wrong.rest("GET", f"{POSTS}?per_page=1")
    assert (status, type(body)) == (200, list)
    status, body = await wrong.rest("GET", "/wp/v2/users/me?context=edit")
    assert (status, body["code"]) == (401, "rest_not_logged_in")


async def test_a_term_that_exists_says_which(bed: Bed) -> None:
    name = f"tag {fresh_marker()[:8]}"
    first = await bed.person("POST", "/wp/v2/tags", {"name": name})
    status, body = await bed.rest("POST", "/wp/v2/tags", {"name": name})
    assert (status, body["code"], body["data"]["term_id"]) == (400, "term_exists", first["id"])


async def test_what_is_not_known_is_dropped_without_a_word(bed: Bed) -> None:
    fields = {"title": "x", "meta": {"unregistered": "1"}, "categories": [987654321], "tags": [987654321]}
    stored = await bed.person("POST", POSTS, fields)
    assert (stored["categories"], stored["tags"]) == ([], [])
    assert "unregistered" not in stored["meta"]


@pytest.mark.parametrize(
    "slug",
    [
        "UPPER Case",
        "ünï-köln",
        "a/b.c_d--e",
        "日本",
        "x" * 300,
        "100%25 50%",
        "tom & jerry’s",
        "a—b–c",
        "ß-æ-ø",
        "<b>x</b>y",
    ],
)
async def test_the_stand_in_makes_of_a_slug_what_the_real_site_makes_of_it(
    bed_pair: tuple[Bed, Bed], slug: str
) -> None:
    own = fresh_marker()[:6]
    stand_in, real = [await bed.person("POST", POSTS, {"title": "x", "slug": f"{own} {slug}"}) for bed in bed_pair]
    assert stand_in["slug"] == real["slug"]


@pytest.mark.parametrize("role", ["editor", "author"])
@pytest.mark.parametrize(
    ("title", "content"),
    [
        ("Tom & Jerry", "<p>plain</p>"),
        ("  spaces  ", "  <p>spaces</p>\n\n"),
        ("<b>bold</b> <i>i</i>", "<p onclick=\"x()\" class='c'>attributes</p>"),
        ("1 < 2", "<p>1 < 2 and 3 > 2 & more &amp; &copy; &#8217;</p>"),
        ("quotes ' \" \\", "<p>' \" \\ \\\\ \\n</p>"),
        ("emoji 🎉", "<p>🎉 日本 é</p>"),
        ("script <script>x</script>", '<script>alert(1)</script><iframe src="https://x.test"></iframe>'),
        ("link", '<a href="https://x.test" target="_blank">new window</a>'),
        ("link", '<a href="javascript:alert(1)">bad</a><a href="https://x.test?a=1&b=2">good</a>'),
        ("blocks", "<!-- wp:paragraph -->\n<p>block</p>\n<!-- /wp:paragraph -->"),
        ("table", '<table><tr><td colspan="2">x</td></tr></table><br /><hr/>'),
        ("form", "<form action='/x'><input name=a></form><svg></svg>"),
        ("image", '<figure><img src="https://x.test/a.png" alt="a" width="10" /><figcaption>c</figcaption></figure>'),
    ],
)
async def test_the_stand_in_stores_text_as_the_real_site_stores_it(
    bed_pair: tuple[Bed, Bed], role: str, title: str, content: str
) -> None:
    fields = {"title": title, "content": content, "excerpt": content}
    stand_in, real = [await bed.person("POST", POSTS, fields, role=role) for bed in bed_pair]
    for name in ("title", "content", "excerpt"):
        assert stand_in[name]["raw"] == real[name]["raw"]


async def test_a_pure_number_does_not_stay_a_slug(bed: Bed) -> None:
    stored = await bed.person("POST", POSTS, {"title": "x", "slug": "2024", "status": "publish"})
    assert stored["slug"].startswith("2024-")


async def test_a_pending_post_of_a_contributor_loses_its_slug(bed: Bed) -> None:
    fields = {"title": "x", "slug": "wanted", "status": "pending"}
    stored = await bed.person("POST", POSTS, fields, role="contributor")
    assert stored["slug"] == ""


async def test_a_date_more_than_a_minute_ahead_schedules_instead_of_publishing(bed: Bed) -> None:
    ahead = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    fields = {"title": "x", "status": "publish", "date_gmt": ahead.strftime("%Y-%m-%dT%H:%M:%S")}
    assert (await bed.person("POST", POSTS, fields))["status"] == "future"
    fields["date_gmt"] = (ahead - datetime.timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%S")
    assert (await bed.person("POST", POSTS, fields))["status"] == "publish"


async def test_untrashing_gives_the_slug_back_or_the_next_free_one(bed: Bed) -> None:
    slug = f"bin-{fresh_marker()[:8]}"
    first = await bed.person("POST", POSTS, {"title": "x", "slug": slug})
    path = f"{POSTS}/{first['id']}"
    assert (await bed.person("DELETE", path))["slug"] == f"{slug}__trashed"
    status, body = await bed.rest("DELETE", path)
    assert (status, body["code"]) == (410, "rest_already_trashed")
    assert (await bed.person("POST", path, {"status": "draft"}))["slug"] == slug
    await bed.person("DELETE", path)
    second = await bed.person("POST", POSTS, {"title": "x", "slug": slug})
    assert second["slug"] == slug
    assert (await bed.person("POST", path, {"status": "publish"}))["slug"] in (f"{slug}-2", slug)
