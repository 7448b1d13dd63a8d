"""The WordPress test bed keeps what it declares: one site, real limits, evidence from the database."""

import contextlib
import json
import os
import socket
import time
from urllib.parse import urlsplit

import pytest

from tests.services import WordPress

GRANULARITY_S = 1.0
BUSY_MACHINE_S = 5.0


def raw_create(site: WordPress, slug: str, *, cut: int = 0) -> socket.socket:
    """A connection on which the creation of a post was written, but for the last `cut` bytes."""
    body = json.dumps({"title": slug, "slug": slug, "status": "draft"}).encode()
    address = urlsplit(site.url)
    head = (
        f"POST /wp-json/wp/v2/posts HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Authorization: {site.users['editor'].authorization}\r\n"
        f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    assert address.hostname is not None
    connection = socket.create_connection((address.hostname, address.port or 80), timeout=30)
    connection.sendall((head.encode() + body)[: len(head) + len(body) - cut])
    return connection


def until_closed(connection: socket.socket) -> float:
    """Seconds until the other side answers or hangs up."""
    began = time.monotonic()
    with connection, contextlib.suppress(ConnectionResetError):
        connection.recv(1)
    return time.monotonic() - began


def test_tests_of_the_site_take_turns_when_several_processes_run(
    wordpress: WordPress, request: pytest.FixtureRequest
) -> None:
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    assert wordpress.url
    assert (
        request.node.nodeid.endswith("@wordpress") == parallel
    )  # how pytest-xdist marks a group that it keeps together


def test_a_post_created_through_the_front_is_one_row_in_the_database(wordpress: WordPress) -> None:
    answer = wordpress.rest(
        "POST", "/wp/v2/posts", {"title": "Ünï ’quoted’", "slug": "bed-one", "status": "publish"}, role="editor"
    )
    assert answer.status == 201
    (row,) = wordpress.posts("bed-one")
    assert (row.post_id, row.status, row.title, row.author) == (answer.body["id"], "publish", "Ünï ’quoted’", "editor1")
    assert answer.body["link"] == f"{wordpress.url}/bed-one/"


def test_the_count_includes_duplicates_and_trashed_posts_of_a_slug(wordpress: WordPress) -> None:
    first = wordpress.rest("POST", "/wp/v2/posts", {"title": "a", "slug": "bed-two", "status": "draft"})
    second = wordpress.rest("POST", "/wp/v2/posts", {"title": "a", "slug": "bed-two", "status": "publish"})
    wordpress.rest("POST", "/wp/v2/posts", {"title": "a", "slug": "bed-two-other", "status": "publish"})
    assert wordpress.rest("DELETE", f"/wp/v2/posts/{first.body['id']}").status == 200
    assert {post.post_id for post in wordpress.posts("bed-two")} == {first.body["id"], second.body["id"]}
    assert wordpress.count_posts("bed-two", status="trash") == 1


def test_a_person_can_edit_a_post(wordpress: WordPress) -> None:
    created = wordpress.rest("POST", "/wp/v2/posts", {"title": "before", "slug": "bed-three", "status": "draft"})
    wordpress.edit_as_human(created.body["id"], title="after")
    assert [post.title for post in wordpress.posts("bed-three")] == ["after"]


def test_every_role_has_a_working_application_password(wordpress: WordPress) -> None:
    answers = {role: wordpress.rest("GET", "/wp/v2/users/me?context=edit", role=role) for role in wordpress.users}
    assert {role: answer.body["roles"] for role, answer in answers.items()} == {role: [role] for role in answers}


def test_a_half_sent_request_is_dropped_after_h_and_creates_nothing(wordpress: WordPress) -> None:
    waited_s = until_closed(raw_create(wordpress, "bed-half", cut=1))
    assert wordpress.incomplete_s - GRANULARITY_S <= waited_s <= wordpress.incomplete_s + BUSY_MACHINE_S
    assert wordpress.count_posts("bed-half") == 0


def test_a_request_that_outlives_m_is_killed_before_its_row_is_written(wordpress: WordPress) -> None:
    wordpress.arm_next_write(before_s=wordpress.run_s + 10)
    waited_s = until_closed(raw_create(wordpress, "bed-slow"))
    assert waited_s <= wordpress.run_s + BUSY_MACHINE_S
    assert wordpress.count_posts("bed-slow") == 0


def test_a_process_that_dies_after_its_row_leaves_the_post_without_an_answer_body(wordpress: WordPress) -> None:
    wordpress.arm_next_write(die="exit")
    with raw_create(wordpress, "bed-dead") as connection:
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b'"id"' not in answer
    assert wordpress.count_posts("bed-dead") == 1


def test_the_key_plugin_refuses_a_second_post_with_the_same_key(wordpress: WordPress) -> None:
    post = {"title": "keyed", "slug": "bed-keyed", "status": "draft", "meta": {"_remit_key": "bed:keyed"}}
    with wordpress.key_plugin():
        first = wordpress.rest("POST", "/wp/v2/posts", post)
        second = wordpress.rest("POST", "/wp/v2/posts", post)
    assert (first.status, second.status) == (201, 409)
    assert second.body["data"]["id"] == first.body["id"]
    assert wordpress.count_posts("bed-keyed") == 1
