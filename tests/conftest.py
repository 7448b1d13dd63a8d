"""Fixtures that start real services, and the tie between tests and the manifest of required behaviours."""

import os
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.services import Mailbox, WordPress, missing_services, smtp_server, wordpress_for_run
from tests.testbeds.fault_proxy import FaultProxy, fault_proxy_before
from tests.testbeds.github.emulator import Emulator, emulator, missing_emulator

# Properties are tried by number of examples, never against a clock: a busy machine changes nothing.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
SHARED_SERVICES = ("wordpress", "github_emulator")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one shared service run in one process, one after the other, unless they name a group of their own."""
    for item in items:
        for service in SHARED_SERVICES:
            if service in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.services)
                if item.get_closest_marker("xdist_group") is None:
                    item.add_marker(pytest.mark.xdist_group(service))


@pytest.fixture(scope="session")
def wordpress() -> Iterator[WordPress]:
    """A real WordPress with real limits, shared by the whole run: a test makes its own slugs and asserts on those."""
    if absent := missing_services():
        unavailable(f"not installed: {', '.join(absent)}; run `make services` once (root)")
    with wordpress_for_run(os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)) as site:
        yield site


@pytest.fixture
def wordpress_proxy(wordpress: WordPress) -> Iterator[FaultProxy]:
    """A proxy before the site, which loses, delays or falsifies what a test arms; its `url` instead of the site's."""
    with fault_proxy_before(wordpress.url) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def github_emulator() -> Iterator[Emulator]:
    """An independent emulator of GitHub's interface: a test makes its own branches and asserts on those."""
    if absent := missing_emulator():
        unavailable(f"not installed: {', '.join(absent)}; run `make services` once")
    with emulator() as running:
        yield running


@pytest.fixture
def smtp() -> Iterator[Mailbox]:
    """A real SMTP server on loopback with an empty mailbox."""
    with smtp_server() as mailbox:
        yield mailbox


def unavailable(reason: str) -> None:
    """Skip with the reason on a developer's machine; on CI nothing is skipped."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
