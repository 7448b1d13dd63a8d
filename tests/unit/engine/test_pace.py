"""The shared pace of a system: room, fairness, pauses, the way back; on a clock and a loop that only tests move."""

import asyncio

import pytest

from execution.core.failures import Absent, CannotTell, FailureClass, Landed, Lost, Receipt, Refused, Unsent
from execution.pace import RETRY_AFTER_MAX_S, Closed, Pace, Rules

LANDED = Landed(receipt=Receipt(resource_id="1"))


class Clock:
    def __init__(self) -> None:
        self.s = 1_000.0

    def now_ms(self) -> int:
        return int(self.s * 1000)

    def awake_s(self) -> float:
        return self.s

    def boot_s(self) -> float:
        return self.s


def limited(retry_after_s: float | None) -> Refused:
    return Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=retry_after_s)


async def waiting(pace: Pace, names: list[str], name: str, *, tenant: str = "a", urgent: bool = False) -> None:
    await pace.wait("cms", tenant=tenant, urgent=urgent)
    names.append(name)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_system_has_as_many_turns_as_its_rules_say() -> None:
    pace = Pace(Clock(), {"cms": Rules(concurrent=2)})
    assert [pace.enter("cms") for _ in range(3)] == [True, True, False]
    pace.leave("cms")
    assert pace.enter("cms")


def test_the_rules_of_a_kind_of_system_hold_for_each_of_its_sites_alone() -> None:
    pace = Pace(Clock(), {"cms": Rules(concurrent=1)})
    assert pace.enter("cms/blog")
    assert not pace.enter("cms/blog")
    assert pace.enter("cms/shop")


@pytest.mark.parametrize("code", ["not_authorised", "not_permitted", "table_missing", "table_differs"])
def test_a_system_that_says_why_it_cannot_tell_is_not_silent(code: str) -> None:
    pace = Pace(Clock(), {"cms": Rules(silent=2)})
    for _ in range(5):
        pace.learn("cms", CannotTell(code=code))
    assert pace.closed() == {}
    for _ in range(2):
        pace.learn("cms", CannotTell(code="no_answer_in_time"))
    assert list(pace.closed()) == ["cms"]


async def test_tenants_take_turns_and_finding_out_goes_first() -> None:
    pace, names = Pace(Clock(), {"cms": Rules(concurrent=1)}), list[str]()
    assert pace.enter("cms")
    tasks = [asyncio.create_task(waiting(pace, names, f"a{i}", tenant="a")) for i in range(3)]
    await settled()
    tasks.append(asyncio.create_task(waiting(pace, names, "b0", tenant="b")))
    tasks.append(asyncio.create_task(waiting(pace, names, "undo", urgent=True)))
    await settled()
    for _ in range(5):
        pace.leave("cms")
        await settled()
    assert names == ["undo", "a0", "b0", "a1", "a2"]
    await asyncio.gather(*tasks)


async def test_whoever_gives_up_waiting_leaves_no_hole_behind() -> None:
    pace, names = Pace(Clock(), {"cms": Rules(concurrent=1)}), list[str]()
    assert pace.enter("cms")
    gone = asyncio.create_task(waiting(pace, names, "gone"))
    kept = asyncio.create_task(waiting(pace, names, "kept"))
    await settled()
    gone.cancel()
    pace.leave("cms")
    await settled()
    assert names == ["kept"]
    assert kept.done()
    pace.leave("cms")
    assert pace.enter("cms")


async def test_whoever_is_cancelled_in_the_moment_of_its_turn_gives_it_back() -> None:
    pace, names = Pace(Clock(), {"cms": Rules(concurrent=1)}), list[str]()
    assert pace.enter("cms")
    late = asyncio.create_task(waiting(pace, names, "late"))
    await settled()
    pace.leave("cms")
    late.cancel()
    await settled()
    assert names == []
    assert pace.enter("cms")


def test_one_refusal_for_load_closes_the_system_for_everybody() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.learn("cms", limited(30.0))
    assert pace.closed() == {"cms": clock.now_ms() + 30_000}
    assert not pace.enter("cms")
    assert pace.enter("mail")
    clock.s += 30.1
    assert pace.closed() == {}
    assert pace.enter("cms")


@pytest.mark.parametrize("asked", [None, float("nan"), float("inf"), -5.0, 0.0])
def test_an_unusable_wait_is_replaced_by_our_own_which_doubles(asked: float | None) -> None:
    clock = Clock()
    pace = Pace(clock, {"cms": Rules(pause_s=5.0, pause_max_s=12.0)})
    waits = []
    for _ in range(3):
        pace.learn("cms", limited(asked))
        waits.append(pace.closed()["cms"] - clock.now_ms())
        clock.s += 60.0
    assert waits == [5_000, 10_000, 12_000]


def test_an_absurd_wait_is_cut() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.learn("cms", limited(1e12))
    assert pace.closed()["cms"] == clock.now_ms() + int(RETRY_AFTER_MAX_S * 1000)


@pytest.mark.parametrize(
    "silence", [Lost(code="no_answer_in_time"), Unsent(code="connect_failed"), CannotTell(code="x")]
)
def test_silence_in_a_row_opens_the_breaker_and_one_answer_forgets_it(silence: Lost | Unsent | CannotTell) -> None:
    pace = Pace(Clock(), {"cms": Rules(silent=3)})
    for seen in (silence, silence, LANDED, silence, silence):
        pace.learn("cms", seen)
    assert pace.closed() == {}
    pace.learn("cms", silence)
    assert "cms" in pace.closed()


def test_what_never_left_this_process_says_nothing_about_the_system() -> None:
    pace = Pace(Clock(), {"cms": Rules(silent=1)})
    pace.learn("cms", Unsent(code="send_budget"))
    pace.learn("cms", None)
    pace.learn("cms", CannotTell(code="not_authorised"))
    assert pace.closed() == {}


def test_after_a_pause_one_tries_and_each_answer_doubles_the_turns() -> None:
    clock = Clock()
    pace = Pace(clock, {"cms": Rules(concurrent=8)})
    pace.learn("cms", limited(1.0))
    clock.s += 1.1
    room = []
    for _ in range(4):
        taken = 0
        while pace.enter("cms"):
            taken += 1
        room.append(taken)
        for _ in range(taken):
            pace.leave("cms")
        pace.learn("cms", Absent())
    assert room == [1, 2, 4, 8]


def test_a_failing_try_closes_it_again_for_longer() -> None:
    clock = Clock()
    pace = Pace(clock, {"cms": Rules(silent=2, pause_s=5.0)})
    for _ in range(2):
        pace.learn("cms", Lost(code="x"))
    clock.s += 5.1
    pace.learn("cms", Lost(code="x"))
    assert pace.closed()["cms"] == clock.now_ms() + 10_000


async def test_a_plan_per_minute_is_a_bucket_that_refills() -> None:
    clock = Clock()
    pace, names = Pace(clock, {"cms": Rules(per_minute=60.0, burst=2, concurrent=9)}), list[str]()
    assert [pace.enter("cms") for _ in range(3)] == [True, True, False]
    task = asyncio.create_task(waiting(pace, names, "next"))
    await settled()
    assert names == []
    clock.s += 1.0
    pace.leave("cms")
    await settled()
    assert names == ["next"]
    await task


async def test_nothing_new_is_begun_for_a_system_for_which_enough_wait() -> None:
    pace, names = Pace(Clock(), {"cms": Rules(concurrent=1, waiting=2)}), list[str]()
    assert pace.enter("cms")
    tasks = [asyncio.create_task(waiting(pace, names, str(i))) for i in range(2)]
    await settled()
    assert set(pace.full()) == {"cms"}
    pace.leave("cms")
    await settled()
    assert pace.full() == {}
    pace.leave("cms")
    await asyncio.gather(*tasks)


def test_what_one_process_learns_the_others_are_told_once() -> None:
    clock = Clock()
    one, other = Pace(clock), Pace(clock)
    one.learn("cms", limited(30.0))
    news = one.news()
    assert one.news() == {}
    other.share(news)
    other.share({"cms": Closed(until_ms=clock.now_ms() + 1, code="older")})
    assert other.closed() == one.closed()
    assert not other.enter("cms")


@pytest.mark.parametrize("wrong", [{"concurrent": 0}, {"burst": 0}, {"per_minute": 0.0}, {"per_minute": float("inf")}])
def test_rules_that_let_nothing_through_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="pace"):
        Rules(**wrong)  # type: ignore[arg-type]  # some count, some measure
