"""`remit demo` as a person runs it: the counts, the exit status, the home that it leaves, and nothing left running."""

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import pytest

from server.demo.play import article
from server.demo.scoreboard import EXPECTED, Counts, differences
from server.demo.story import Outcome, conclude
from server.demo.telling import Teller
from tests.e2e.world import Home, agent, answer, environment

pytestmark = pytest.mark.xdist_group("demo")
DEMO: Final = (sys.executable, "-m", "server", "demo")
DEMO_MAX_S: Final = 280.0
END_MAX_S: Final = 30.0
NAIVE: Final = Counts(calls=4, kills=0, posts_published=4, emails=3, wordpress_writes=4)
OUTCOME: Final = Outcome(remit=EXPECTED, naive=NAIVE, command_ids=["cmd_1"], seconds=20.0)


@dataclass(frozen=True, slots=True)
class Told:
    """A story that was told to its end."""

    code: int
    document: Any
    errors: str
    home: Home


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    home = tmp_path_factory.mktemp("demo") / "home"
    words = [*DEMO, "--json", "--keep", str(home)]
    done = subprocess.run(words, env=environment(), capture_output=True, timeout=DEMO_MAX_S, text=True)
    assert done.stdout, done.stderr
    return Told(done.returncode, json.loads(done.stdout), done.stderr, Home(home))


def running(words: str) -> list[str]:
    """Command lines of processes of this machine in which `words` occur."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended meanwhile
    return [line for line in lines if words in line]


@pytest.mark.behaviour("demo.counts")
def test_four_calls_and_a_kill_make_one_post_and_one_mail(told: Told) -> None:
    assert (told.code, told.document["ok"], told.document["differences"]) == (0, True, []), told.errors
    assert told.document["remit"] == {
        "calls": 4,
        "kills": 1,
        "posts_published": 1,
        "emails": 1,
        "wordpress_writes": 2,
    }
    assert len(told.document["command_ids"]) == 1


def test_the_naive_tool_had_the_same_calls_and_did_more(told: Told) -> None:
    naive = told.document["naive"]
    assert naive["calls"] == 4
    assert naive["posts_published"] > 1
    assert naive["emails"] > 1


def test_no_process_outlives_the_story(told: Told) -> None:
    assert running(str(told.home.path)) == []


async def test_the_kept_home_serves_afterwards_and_still_knows_the_article(told: Told) -> None:
    (command_id,) = told.document["command_ids"]
    told.home.issue("--uses", "2", "--open", "2")
    async with agent(told.home) as writer:
        again = answer(await writer.call("propose_publish", **article()))
        assert (again["command_id"], again["deduplicated"]) == (command_id, True)
        assert (again["state"], again["live"]) == ("SUCCESS", True)
        other = await writer.propose(article_id="article-0029", title="Another", slug="another")
        assert (await writer.settled(other["command_id"]))["state"] == "AWAITING_APPROVAL"
        effects = told.home.sandbox.effects()
        assert sorted(post["status"] for post in effects["posts"]) == ["draft", "publish"]
        assert len(effects["messages"]) == 1


@pytest.fixture
def begun(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A story whose sandbox and worker run already."""
    words = [*DEMO, "--keep", str(tmp_path / "home")]
    process = subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "moment"), [(signal.SIGINT, "the worker is process"), (signal.SIGTERM, "call 1: propose_publish")]
)
def test_a_story_that_is_interrupted_ends_everything_that_it_started(
    begun: "subprocess.Popen[str]", tmp_path: Path, number: signal.Signals, moment: str
) -> None:
    assert begun.stdout is not None
    heard = []
    for line in begun.stdout:
        heard.append(line)
        if moment in line:
            break
    assert len(running(str(tmp_path))) > 1
    begun.send_signal(number)
    rest, errors = begun.communicate(timeout=END_MAX_S)
    assert (begun.returncode, errors) == (130, "")
    assert "\x1b" not in "".join(heard) + rest
    assert running(str(tmp_path)) == []


def test_a_story_that_is_killed_leaves_no_process_behind(begun: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert begun.stdout is not None
    assert any("call 1: propose_publish" in line for line in begun.stdout)
    assert len(running(str(tmp_path))) > 2
    begun.kill()
    begun.wait(END_MAX_S)
    until = time.monotonic() + END_MAX_S
    while running(str(tmp_path)) and time.monotonic() < until:
        select.select([], [], [], 0.1)
    assert running(str(tmp_path)) == []


def test_a_folder_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    words = [*DEMO, "--json", "--keep", str(tmp_path)]
    done = subprocess.run(words, env=environment(), capture_output=True, timeout=DEMO_MAX_S, text=True)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "home_exists")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_story_with_the_right_counts_ends_well() -> None:
    assert conclude(OUTCOME, None, Teller(silent=True), as_json=False) == 0


@pytest.mark.parametrize("name", [field.name for field in fields(Counts)])
def test_any_other_count_is_named_and_ends_badly(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for other in (getattr(EXPECTED, name) - 1, getattr(EXPECTED, name) + 1):
        wrong = replace(OUTCOME, remit=replace(EXPECTED, **{name: other}))
        assert conclude(wrong, None, Teller(silent=True), as_json=True) == 1
        document = json.loads(capsys.readouterr().out)
        assert (document["ok"], len(document["differences"])) == (False, 1)
        assert f"{other} instead of {getattr(EXPECTED, name)}" in document["differences"][0]


def test_two_commands_for_one_article_end_badly() -> None:
    twice = replace(OUTCOME, command_ids=["cmd_1", "cmd_2"])
    assert conclude(twice, None, Teller(silent=True), as_json=False) == 1


def test_a_naive_tool_that_does_no_more_proves_nothing() -> None:
    assert len(differences(EXPECTED, replace(NAIVE, posts_published=1, emails=1))) == 2
    assert len(differences(EXPECTED, replace(NAIVE, calls=1))) == 1
