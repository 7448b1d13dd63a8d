"""What Prometheus is told agrees with what happened, and names nobody."""

import re
import urllib.error
import urllib.request
from typing import Final

import pytest

from tests.e2e.http_world import http_agent, reachable, token_of
from tests.e2e.world import ARTICLE, Home

ID: Final = re.compile(r"(cmd|tok|dec|saga|wf|inst|att|rev)_[0-9a-z]{26}")


def measuring(home: Home) -> str:
    """Switch the figures on; where they are."""
    file = home.path / "remit.toml"
    text = file.read_text()
    switched = re.sub(r"(\[metrics\][^\[]*?enabled = )false", r"\1true", text)
    assert switched != text
    file.write_text(switched)
    port = re.search(r"\[metrics\][^\[]*?port = (\d+)", text)
    assert port is not None
    return f"http://127.0.0.1:{port.group(1)}/metrics"


def figures(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    assert ID.search(text) is None
    assert "writer" not in text
    assert "blog" not in text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in lines}


@pytest.mark.behaviour("threat.52")
@pytest.mark.behaviour("metrics.true")
async def test_the_figures_are_what_happened(home: Home) -> None:
    url = measuring(home)
    token = token_of(home, "--uses", "3", "--open", "3")
    with reachable(home) as at:
        before = figures(url)
        assert before['remit_commands{state="SUCCESS"}'] == 0
        async with http_agent(at.mcp, token) as writer:
            command_id = (await writer.propose(notify=["team"]))["command_id"]
            await writer.settled(command_id)
            asked = figures(url)
            assert (asked['remit_waiting{what="approval"}'], asked['remit_waiting{what="review"}']) == (1, 0)
            assert asked['remit_oldest_seconds{state="RUNNING"}'] > 0

            home.sandbox.arm(match="POST /wp-json/wp/v2/posts/", kind="drop_after", times=1)
            assert home.approve(command_id).code == 0
            assert (await writer.settled(command_id))["state"] == "SUCCESS"
            await writer.propose(notify=["team"])
            assert (await writer.refused("propose_publish", **{**ARTICLE, "site": "elsewhere"}))["code"]
        now = figures(url)
    assert now['remit_commands{state="SUCCESS"}'] == 1
    assert now['remit_waiting{what="approval"}'] == now["remit_steps_in_doubt"] == 0
    assert now["remit_reconcile_seconds_count"] == 1
    assert now["remit_approval_wait_seconds_count"] == 1
    assert now['remit_duplicates_prevented_total{by="proposal"}'] == 1
    assert now['remit_duplicates_prevented_total{by="reconciliation"}'] == 1
    assert now['remit_events_total{type="OUTCOME_LOST"}'] == 1
    assert now['remit_refusals_total{code="resource_not_granted"}'] == 1
    assert now["remit_wal_bytes"] > 0
    assert now["remit_worker_seen_seconds"] < 60


def test_figures_are_off_unless_they_are_switched_on_and_only_for_allowed_hosts(home: Home) -> None:
    with reachable(home, "--no-worker") as at:
        assert at.get("/metrics").status == 404
    url = measuring(home)
    with reachable(home, "--no-worker"):
        assert "remit_commands" in " ".join(figures(url))
        assert refused(url, Host="evil.example") == 421
        assert refused(url, Origin="https://evil.example") == 403
        assert refused(url.replace("/metrics", "/mcp")) == 404
        assert refused(url, method="POST") == 405


def refused(url: str, method: str = "GET", **headers: str) -> int:
    request = urllib.request.Request(url, headers=headers, method=method)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)
    caught.value.close()
    return caught.value.code
