"""The fault proxy tells lost requests from lost answers; the system's own database confirms it."""

import http.client
import json
import socket
import time
from urllib.parse import urlsplit

import pytest

from tests.services import WordPress, wait_until
from tests.testbeds.fault_proxy import Armed, Fault, FaultProxy

POSTS = "/wp-json/wp/v2/posts"
CREATE = f"POST {POSTS}"


def create(proxy: FaultProxy, site: WordPress, slug: str, *, timeout_s: float = 10.0) -> tuple[int, bytes]:
    client = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=timeout_s)
    try:
        headers = {"Authorization": site.users["editor"].authorization, "Content-Type": "application/json"}
        client.request("POST", POSTS, json.dumps({"title": slug, "slug": slug, "status": "draft"}), headers)
        response = client.getresponse()
        return response.status, response.read()
    finally:
        client.close()


def test_without_a_fault_the_answer_is_the_systems_own(wordpress: WordPress, wordpress_proxy: FaultProxy) -> None:
    status, body = create(wordpress_proxy, wordpress, "proxy-plain")
    assert (status, json.loads(body)["slug"]) == (201, "proxy-plain")
    assert wordpress_proxy.landed(CREATE) == wordpress.count_posts("proxy-plain") == 1


@pytest.mark.parametrize(
    ("fault", "seen_by_the_client", "rows"),
    [
        (Fault.RESET_BEFORE, ConnectionResetError, 0),
        (Fault.DROP_AFTER, http.client.RemoteDisconnected, 1),
        (Fault.TRUNCATE_AFTER, http.client.IncompleteRead, 1),
    ],
)
def test_a_broken_connection_hides_whether_the_post_exists(
    wordpress: WordPress, wordpress_proxy: FaultProxy, fault: Fault, seen_by_the_client: type[Exception], rows: int
) -> None:
    slug = f"proxy-{fault.value.replace('_', '-')}"
    wordpress_proxy.arm(Armed(fault=fault, match=CREATE))
    with pytest.raises(seen_by_the_client):
        create(wordpress_proxy, wordpress, slug)
    assert wordpress_proxy.landed(CREATE) == wordpress.count_posts(slug) == rows


@pytest.mark.parametrize(("fault", "rows"), [(Fault.ANSWER_BEFORE, 0), (Fault.ANSWER_AFTER, 1)])
def test_a_made_up_answer_hides_whether_the_post_exists(
    wordpress: WordPress, wordpress_proxy: FaultProxy, fault: Fault, rows: int
) -> None:
    slug = f"proxy-{fault.value.replace('_', '-')}"
    wordpress_proxy.arm(Armed(fault=fault, match=CREATE, status=429, headers={"Retry-After": "1"}))
    assert create(wordpress_proxy, wordpress, slug) == (429, b"<html>unavailable</html>")
    assert wordpress.count_posts(slug) == rows


def test_a_delayed_request_lands_after_its_client_has_left(wordpress: WordPress, wordpress_proxy: FaultProxy) -> None:
    wordpress_proxy.arm(Armed(fault=Fault.DELAY_BEFORE, match=CREATE, delay_s=3.0))
    with pytest.raises(socket.timeout):
        create(wordpress_proxy, wordpress, "proxy-late", timeout_s=0.3)
    assert wordpress.count_posts("proxy-late") == 0
    wait_until(lambda: wordpress.count_posts("proxy-late") == 1, timeout_s=15.0)


def test_a_delayed_answer_comes_in_the_end(wordpress: WordPress, wordpress_proxy: FaultProxy) -> None:
    wordpress_proxy.arm(Armed(fault=Fault.DELAY_AFTER, match=CREATE, delay_s=0.5))
    began = time.monotonic()
    assert create(wordpress_proxy, wordpress, "proxy-slow")[0] == 201
    assert time.monotonic() - began >= 0.5
