"""The token file is reopened on every call, and reaches exactly as far as it says."""

import pytest

from tests.e2e.world import ARTICLE, Home, agent, answer


async def test_a_token_that_was_rotated_between_calls_takes_effect_at_once(home: Home) -> None:
    async with agent(home, "--no-worker") as writer:
        assert (await writer.refused("query_command_status"))["code"] == "token_file_unreadable"
        home.issue("--article", "article-0001")
        refused = await writer.refused("propose_publish", **ARTICLE)
        assert (refused["code"], refused["field"]) == ("resource_not_granted", "article_id")
        refused = await writer.refused("propose_publish", **{**ARTICLE, "site": "elsewhere"})
        assert (refused["code"], refused["field"]) == ("resource_not_granted", "site")
        home.issue("--article", "article-0028")
        assert (await writer.propose(wait_seconds=0))["command_id"].startswith("cmd_")


@pytest.mark.behaviour("threat.5")
async def test_a_token_is_good_for_its_uses_and_replays_are_free(home: Home) -> None:
    home.issue("--uses", "1", "--open", "5")
    async with agent(home, "--no-worker") as writer:
        first = await writer.propose(wait_seconds=0)
        assert (await writer.propose(wait_seconds=0))["command_id"] == first["command_id"]
        spent = await writer.refused("propose_publish", **{**ARTICLE, "article_id": "article-0029"})
        assert spent["code"] == "token_exhausted"


@pytest.mark.behaviour("decision.closed")
async def test_a_decision_that_is_closed_takes_nothing_more_from_a_token_that_is_out(home: Home) -> None:
    decision_id = home.issue("--uses", "5", "--open", "5")["decision_id"]
    async with agent(home, "--no-worker") as writer:
        first = await writer.propose(wait_seconds=0)
        assert home.remit("decision", "close", decision_id).code == 0
        refused = await writer.refused("propose_publish", **{**ARTICLE, "article_id": "article-0029"})
        assert refused["code"] == "decision_closed"
        assert answer(await writer.call("query_command_status", command_id=first["command_id"]))["done"] is False


async def test_a_token_that_only_asks_sees_everything_and_proposes_nothing(home: Home) -> None:
    home.issue()
    async with agent(home, "--no-worker") as reader:
        command_id = (await reader.propose(wait_seconds=0))["command_id"]
        home.issue("--query-only", "--any", agent="auditor")
        seen = answer(await reader.call("query_command_status", command_id=command_id))
        assert seen["command_id"] == command_id
        listed = answer(await reader.call("query_command_status"))
        assert [line["command_id"] for line in listed["commands"]] == [command_id]
        assert (await reader.refused("propose_publish", **ARTICLE))["code"] == "intent_not_granted"


@pytest.mark.behaviour("threat.20")
async def test_a_command_of_somebody_else_and_no_command_are_the_same_answer(home: Home) -> None:
    home.issue()
    async with agent(home, "--no-worker") as reader:
        command_id = (await reader.propose(wait_seconds=0))["command_id"]
        home.issue(agent="stranger")
        foreign = await reader.refused("query_command_status", command_id=command_id)
        absent = await reader.refused("query_command_status", command_id="cmd_01kb9zq3m4n5p6q7r8s9t0v1w2")
        assert foreign == absent
        assert foreign["code"] == "command_not_found"
        taken = await reader.refused("propose_publish", **ARTICLE)
        assert taken["code"] == "already_proposed"
        assert "command_id" not in taken


async def test_a_revoked_token_ends_at_the_next_call(home: Home) -> None:
    token_id = home.issue()["token_id"]
    async with agent(home, "--no-worker") as writer:
        await writer.propose(wait_seconds=0)
        assert home.remit("token", "revoke", token_id).code == 0
        assert (await writer.refused("query_command_status"))["code"] == "revoked"


@pytest.mark.behaviour("threat.4")
async def test_a_token_in_an_argument_is_refused_and_revoked(home: Home) -> None:
    home.issue()
    raw = home.token.read_text().strip()
    async with agent(home, "--no-worker") as writer:
        leaked = await writer.refused("propose_publish", **{**ARTICLE, "content": f"see {raw}."})
        assert leaked["code"] == "credential_in_arguments"
        assert raw not in repr(leaked)
        assert (await writer.refused("query_command_status"))["code"] == "revoked"


@pytest.mark.behaviour("threat.44")
@pytest.mark.parametrize(
    ("mode", "code"), [(0o640, "token_file_open_permissions"), (0o604, "token_file_open_permissions")]
)
async def test_a_token_file_that_others_can_read_is_refused(home: Home, mode: int, code: str) -> None:
    home.issue()
    home.token.chmod(mode)
    async with agent(home, "--no-worker") as writer:
        assert (await writer.refused("query_command_status"))["code"] == code


@pytest.mark.behaviour("threat.44")
async def test_a_token_file_that_is_a_link_is_refused(home: Home) -> None:
    home.issue()
    real = home.token.rename(home.token.with_name("real"))
    home.token.symlink_to(real)
    async with agent(home, "--no-worker") as writer:
        assert (await writer.refused("query_command_status"))["code"] == "token_file_unreadable"
