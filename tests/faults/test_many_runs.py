"""Many runs at once, and the server dies at a moment that nobody chose."""

import asyncio
import random
from collections import Counter

from tests.faults.calling import Caller, Frame, Gone, Started
from tests.faults.databases import read_statuses
from tests.faults.promises import check_conversation_goes_on, check_run, read_effects, shown_text, tokens
from tests.serving import Served

SEED = 1704
ROUNDS = 3
RUNS = 20
LONGEST_LIFE = 1.5


async def watch(caller: Caller, run: Started) -> list[Frame]:
    """What can be seen until the server dies."""
    seen: list[Frame] = []
    try:
        async with caller.following(run) as frames:
            async for frame in frames:
                seen.append(frame)
    except Gone:
        pass
    return seen


def make_order(chance: random.Random, number: int) -> tuple[str, str, int]:
    """The words, the agent, and how many tokens it says at the end."""
    count = chance.randrange(1, 60)
    text = f"#tokens={count} #rate={chance.choice([0, 50, 100])}"
    if chance.random() < 0.6:
        marks = range(chance.randrange(1, 4))
        text += "".join(f' #tool=mark {{"name": "run{number}.{mark}"}}' for mark in marks)
        text += ' #tool=wait {"seconds": 0.3}'
    return text, chance.choice(["sequential", "parallel"]), count


async def test_twenty_runs_survive_a_kill_at_any_moment(site: Served, caller: Caller) -> None:
    """T4, T5, R5, C2, C8, R16"""
    chance = random.Random(SEED)
    site.environment["AGENTSITE_MAX_ATTEMPTS"] = "9"
    site.start()
    all_runs: list[Started] = []
    for number in range(ROUNDS):
        orders = [make_order(chance, 100 * number + run) for run in range(RUNS)]
        runs = [await caller.start(text, agent=agent) for text, agent, _ in orders]
        # Some wait behind another.
        behind = [await caller.start("#tokens=2", conversation=run.conversation_id) for run in runs[:5]]
        watching = asyncio.gather(*(watch(caller, run) for run in runs))
        await asyncio.sleep(chance.uniform(0, LONGEST_LIFE))
        before = Counter(read_statuses(site).values())
        await caller.kill()
        seen = await watching
        await caller.restart()

        found = await asyncio.gather(*(check_run(caller, run, frames) for run, frames in zip(runs, seen, strict=True)))
        after = Counter(f"{one['status']} at attempt {one['attempt']}" for one in found)
        print(f"round {number + 1}: killed with {dict(before)}, then {dict(after)}")
        for run, one, (_, _, count) in zip(runs, found, orders, strict=True):
            assert (one["status"], one["output"]) == ("completed", tokens(count))
            assert shown_text(await caller.log(run)) == tokens(count)
        for run in behind:
            assert (await check_run(caller, run))["output"] == tokens(2)
        all_runs += runs
    assert set(read_statuses(site).values()) == {"completed"}
    effects = read_effects(site.environment["EFFECTS_FILE"])
    print(f"{len(effects)} effects, none twice")
    assert len(effects) == len(set(effects))
    await check_conversation_goes_on(caller, chance.choice(all_runs))
