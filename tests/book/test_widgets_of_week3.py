"""The widgets of week 3: their numbers are those of the course's own code, and they need no mouse."""

import itertools
import random
import re
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week1.heads import example
from book.generate.week3 import day1, day2, day3, day4, day5, day7, replay
from tests.book.test_widgets import fits
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
mx.set_default_device(mx.cpu)
load_solution()


def test_a_draft_token_is_accepted_as_by_the_solution(page):
    from tiny_llm_solution.speculative.acceptance import accept

    widget = Widget(page, "draft-accept")
    target = mx.array(widget.data()["target"])
    fates = set()
    for mix in (-1, -0.5, 0, 0.5):
        for token in range(len(widget.data()["tokens"])):
            for u in (0.05, 0.5, 0.95):
                state = widget.change(token=token, u=u, mix=mix)
                draft = mx.array(state["q"])
                np.testing.assert_allclose(sum(state["q"]), 1, atol=1e-5)
                accepted, _ = accept(mx.stack([target, target]), draft[None], [token], [u, 0.5])
                assert state["accepted"] == bool(accepted)
                fates.add(state["accepted"])
        rest = mx.maximum(target - draft, 0)
        np.testing.assert_allclose(state["residual"], np.array(rest / mx.sum(rest)), atol=1e-5)
        assert state["rate"] == pytest.approx(mx.sum(mx.minimum(target, draft)).item(), abs=1e-5)
    assert fates == {True, False}
    same = widget.change(mix=1, k=4, v=1, c=0)
    assert same["speed"] == same["tokens"] == pytest.approx(5, abs=1e-3)  # the target itself as draft


@pytest.mark.parametrize("_", range(3))
def test_a_draft_token_by_keyboard(page, _):
    widget = Widget(page, "draft-accept")
    widget.focus("[name=token]")
    assert widget.press("ArrowDown")["token"] == 1
    widget.focus("#u")
    assert widget.press("Home")["accepted"]
    assert "is accepted" in widget.said()
    widget.focus("#v")
    assert widget.press("End")["speed"] < 1
    widget.focus("#k")
    assert widget.press("ArrowRight")["k"] == 5
    assert page.url == widget.address


def test_the_paged_softmax_is_the_solution_s(page):
    """After each page, whichever pages the block table lists, and with the slot after the last token."""
    from tiny_llm_solution.paged.attention import paged_attention

    widget, shown = Widget(page, "online-softmax", "week3/day4.html"), example()
    tokens, (_, *left) = len(day4.TOKENS), day4.stale()
    sequences = [np.vstack([own, stale]) for own, stale in zip((shown.key, shown.value), left, strict=True)]
    for number, table in enumerate(day4.TABLES):
        pools = [np.full((day4.PAGES, 1, day4.PAGE, own.shape[1]), np.nan) for own in sequences]
        for position, (pool, own) in itertools.product(range(tokens + 1), zip(pools, sequences, strict=True)):
            pool[table[position // day4.PAGE], 0, position % day4.PAGE] = own[position]
        query, keys, values = (mx.array(x).astype(mx.float32) for x in (shown.query[-1:, None], *pools))
        for stale, step in itertools.product((False, True), range(1, len(table) + 1)):
            state = widget.change(table=number, stale=stale, step=step)
            read = min(day4.PAGE * step, tokens + stale)
            wanted = paged_attention(query, keys, values, list(table), read)[0, 0, 0].item()
            assert state["result"] == pytest.approx(wanted, abs=1e-3)
            assert f"Entry {step - 1} of the block table is page {table[step - 1]}." in widget.said()
        assert state["step"] == state["blocks"]
        assert f"o / l is {state['result']:.4f}, not 0.2049" in widget.said()


@pytest.mark.parametrize("_", range(3))
def test_the_paged_softmax_by_keyboard(page, _):
    widget = Widget(page, "online-softmax", "week3/day4.html")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowLeft", "ArrowLeft", "ArrowLeft")["step"] == 0
    assert widget.press(*["ArrowRight"] * 4)["step"] == 3
    before = widget.state()["result"]
    widget.focus("[name=stale]")
    assert widget.press("Space")["result"] < before
    widget.focus("select")
    state = widget.press("ArrowDown")
    assert (state["table"], state["step"]) == (1, 0)
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('online-softmax').state.step >= 1")
    widget.press("Enter")
    fits(page, widget)
    assert page.url == widget.address


def test_the_replay_s_figures_are_those_of_the_latencies(page):
    from tiny_llm_solution.serving.latency import Latency, RequestTimes

    widget, preempted = Widget(page, "scheduler-replay"), 0
    for setting in ((0, 1, 1, 0), (1, 2, 1, 0), (2, 1, 1, 0), (3, 1, 0, 0), (2, 2, 1, 1)):
        names = dict(zip(day3.SETTINGS, setting, strict=True))
        limits = (day3.SETTINGS[name][i] for name, i in list(names.items())[1:])
        requests, steps = replay.run(names["policy"], *limits)
        clock, times = [0], {request: [] for request in requests}
        for step in steps:
            clock.append(clock[-1] + replay.FIXED + sum(len(chunk.tokens) for chunk in step.chunks))
            for chunk, new in zip(step.chunks, step.new, strict=True):
                times[chunk.request] += [clock[-1]] * len(new)
        latency = Latency()
        for request, (comes, _, _) in zip(requests, replay.LOAD, strict=True):
            latency.add(RequestTimes(clock[comes], clock[comes], times[request]))
        state = widget.change(**names, step=len(steps))
        assert (state["steps"], state["now"]) == (len(steps), clock[-1])
        assert state["firsts"] == latency.ttft
        assert state["tokens"] == sum(output for _, _, output in replay.LOAD)
        assert state["longest"] == max(b - a for each in times.values() for a, b in itertools.pairwise(each))
        assert state["preempted"] == sum(len(step.preempted) for step in steps)
        preempted += state["preempted"]
    assert preempted
    assert widget.change(step=0)["tokens"] == 0


def test_day_1_s_replay_is_the_static_and_continuous_part(page):
    widget = Widget(page, "scheduler-replay", "week3/day1.html")
    ends = {}
    for (policy, slots), (_, steps) in day1.runs().items():
        state = widget.change(policy=policy, slots=slots, step=len(steps))
        assert state["steps"] == len(steps)
        assert state["now"] == sum(replay.tokens_of(steps)) + replay.FIXED * len(steps)
        assert state["preempted"] == 0
        ends[policy, day1.CHOICES[slots]] = state["now"]
    assert ends[0, 6] == ends[1, 3] == 90 < ends[0, 5]  # the chapter's answer
    widget.focus("[name=policy]")
    assert widget.press("ArrowUp")["policy"] == 0
    widget.focus("[name=other]")
    assert widget.press("ArrowUp")["other"] == 0
    widget.focus("#next")
    at = widget.press("Home", "Enter")["at"]
    assert widget.press("ArrowLeft")["at"] == at - 1
    assert page.url == widget.address


def test_day_2_s_replay_is_the_table_s_and_has_a_fixed_cost(page):
    """Without one, the figures are those of the chapter's table; with one, those of its answer."""
    widget, figures = Widget(page, "scheduler-replay", "week3/day2.html"), {}
    for (policy, number), (_, steps) in day2.runs().items():
        budget = day2.BUDGETS[number] if policy else 0
        for fixed in day2.FIXED:
            state = widget.change(policy=policy, budget=number, fixed=fixed, step=len(steps))
            assert state["now"] == sum(replay.tokens_of(steps)) + fixed * len(steps)
            figures[budget, fixed] = state["longest"], state["firsts"][-1]
        assert figures[budget, 0] == day2.figures_of(budget)[1:]
    assert [figures[budget, 16] for budget in (0, 8, 16)] == [(43, 43), (24, 119), (32, 62)]
    widget.focus("[name=fixed]")
    assert widget.press("Home")["fixed"] == 0
    widget.focus("[name=budget]")
    assert widget.press("Home", "ArrowDown")["budget"] == 1
    widget.focus("#next")
    before = widget.change(step=5)["at"]
    assert widget.press("ArrowLeft", "ArrowLeft", "Enter")["at"] == before - 1
    fits(page, widget)
    assert page.url == widget.address


def test_the_replay_compares_two_policies_at_the_same_time(page):
    widget, runs = Widget(page, "scheduler-replay"), {}
    for policy in range(len(replay.POLICIES)):
        tokens = replay.tokens_of(replay.run(policy, 4, 16, 64)[1])
        runs[policy] = [0, *itertools.accumulate(count + replay.FIXED for count in tokens)]
    for policy, other in ((0, 1), (2, 1), (1, 3)):
        clock, second = runs[policy], runs[other]
        for step in range(len(clock)):
            state = widget.change(policy=policy, other=other, slots=1, budget=1, pages=0, step=step)
            last = step == len(clock) - 1
            expected = second[-1] if last else max(time for time in second if time <= clock[step])
            assert (state["now"], state["compared"]["now"]) == (clock[step], expected)
        assert state["compared"] == {name: widget.change(policy=other, step=99)[name] for name in state["compared"]}
    assert replay.POLICIES[3] in widget.said()


@pytest.mark.parametrize("width", [375])
def test_day_1_s_replay_fits_a_phone(page, width):
    fits(page, Widget(page, "scheduler-replay", "week3/day1.html"))


def test_a_queue_s_figures_are_those_of_the_recorded_clients(page):
    widget, slots = Widget(page, "queue-limit"), day7.SLOTS
    (_, arrivals), (_, limits) = day7.SETTINGS.items()
    for (i, every), (j, limit) in itertools.product(enumerate(arrivals), enumerate(limits)):
        with ThreadPoolExecutor(1) as other:  # Playwright's event loop runs in this thread
            clients = other.submit(day7.overload, every, limit).result()
        end = max(client["tokens"][-1] for client in clients)
        seconds = range(int(end) + 2)
        states, _ = widget.look([{"arrivals": i, "limit": j, "second": second} for second in seconds], ".say")
        for second, state in zip(seconds, states, strict=True):
            inside = sum(client["admitted"] <= second < client["tokens"][-1] for client in clients)
            assert state["running"] + state["queued"] == inside
            assert state["running"] <= slots
            assert state["queued"] <= limit
            came = sum(day7.FIRST + number * every <= second for number in range(day7.CLIENTS))
            assert inside + state["outside"] + state["served"] == came
        first = [client["tokens"][0] for client in clients]
        arrived = [day7.FIRST + number * every for number in range(day7.CLIENTS)]
        ttft = sorted(token - client["admitted"] for token, client in zip(first, clients, strict=True))
        waits = sorted(token - came for token, came in zip(first, arrived, strict=True))
        np.testing.assert_allclose(states[-1]["ttft"], ttft, atol=0.06)
        np.testing.assert_allclose(states[-1]["waits"], waits, atol=0.06)
        assert len(states[-1]["rejections"]) == sum(len(client["tries"]) for client in clients)
        assert states[-1]["served"] == day7.CLIENTS
        for client in clients:  # each returns exactly when it was told to
            times = [time + seconds for time, seconds in client["tries"]]
            assert times == pytest.approx(
                [*(time for time, _ in client["tries"][1:]), client["admitted"]][: len(times)]
            )


@pytest.mark.parametrize("_", range(3))
def test_a_queue_by_keyboard(page, _):
    widget = Widget(page, "queue-limit")
    at = widget.state()["at"]
    widget.focus("#back")
    assert widget.press("Enter", "ArrowLeft")["at"] == at - 2
    widget.focus("[name=limit]")
    assert widget.press("ArrowUp")["limit"] == 1
    widget.focus("[name=arrivals]")
    assert widget.press("ArrowDown")["arrivals"] == 1
    widget.focus("#second")
    assert widget.press("Home")["at"] == 0
    assert widget.said() == "After 0 s, no client has been rejected."
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('queue-limit').state.at >= 2")
    widget.press("Enter")
    assert page.url == widget.address


@pytest.mark.parametrize("_", range(3))
def test_the_replay_by_keyboard(page, _):
    widget = Widget(page, "scheduler-replay")
    at = widget.state()["at"]
    widget.focus("#back")
    assert widget.press("Enter", "ArrowLeft")["at"] == at - 2
    widget.focus("[name=policy]")
    assert widget.press("ArrowDown")["policy"] == 1
    widget.focus("#step")
    assert widget.press("Home")["at"] == 0
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('scheduler-replay').state.at >= 2")
    widget.press("Enter")
    assert page.url == widget.address


def drawn_actions(seed):
    """The example, or many random actions; each is possible where it occurs."""
    if seed < 0:
        return list(day5.DEMO)
    rng, actions, replay = random.Random(seed), [], day5.Replay()
    for _ in range(25):
        number = rng.randrange(len(day5.REQUESTS))
        actions.append(("finish" if number in replay.running else "admit", number))
        replay.act(*actions[-1])
    return actions


def test_the_prefix_tree_is_the_solution_s(page, monkeypatch):
    """After each action of many sequences: the tree, the references, the block tables, what was found and evicted."""
    from tiny_llm_solution.prefix import kv_cache, tree
    from tiny_llm_solution.prefix.node import subtree_pages

    evict, insert, split = kv_cache.evict, tree.RadixTree.insert, tree.RadixTree._split
    log = {}

    def evicts(*arguments):
        log["evicted"] += (gone := evict(*arguments))
        return gone

    def inserts(self, tokens, pages):
        known = set(subtree_pages(self.root))
        kept = insert(self, tokens, pages)
        log["inserted"] += [page for page in kept if page not in known]
        log["duplicates"] += [page for page, own in zip(pages, kept, strict=True) if page != own]
        return kept

    def splits(self, node, count):
        log["split"].append(node.pages[count])
        split(self, node, count)

    monkeypatch.setattr(kv_cache, "evict", evicts)
    monkeypatch.setattr(tree.RadixTree, "insert", inserts)
    monkeypatch.setattr(tree.RadixTree, "_split", splits)
    widget, seen = Widget(page, "prefix-tree"), set()
    for seed in range(-1, 60):
        actions = drawn_actions(seed)
        states, _ = widget.look([{"actions": actions[: n + 1]} for n in range(len(actions))], ".say")
        replay = day5.Replay()
        memory = replay.memory

        def shape(node, words=replay.words):
            pages = [" ".join(words[t] for t in node.tokens[i : i + 2]) for i in range(0, len(node.tokens), 2)]
            return [pages, node.pages, node.last_access, [shape(child) for child in node.children.values()]]

        for (action, number), state in zip(actions, states, strict=True):
            log = {"split": [], "evicted": [], "duplicates": [], "inserted": []}
            enough = replay.act(action, number)
            assert plain(state["root"]) == shape(memory.tree.root)
            assert state["refs"] == [memory.pool.ref_count(page) for page in range(day5.POOL)]
            assert (state["clock"], state["hits"], state["queried"]) == (
                memory.tree.clock,
                memory.hit_tokens,
                memory.queried_tokens,
            )
            assert {each["number"]: [each["pages"], each["computed"]] for each in state["running"]} == {
                n: [memory.block_tables[request], request.num_computed_tokens] for n, request in replay.running.items()
            }
            assert list(state["log"].values())[1:] == list(log.values())
            end = re.search("is admitted|is finished|must wait|is preempted", state["end"])[0]
            assert enough == (end in ("is admitted", "is finished"))
            seen |= {name for name in log if log[name]} | {end}
    assert len(seen) == 8  # all kinds of events: four of the tree, four ends of an action


def plain(node):
    return [node["texts"], node["pages"], node["used"], [plain(child) for child in node["children"]]]


@pytest.mark.parametrize("_", range(3))
def test_the_prefix_tree_by_keyboard(page, _):
    widget = Widget(page, "prefix-tree")
    assert len(widget.state()["actions"]) == 3
    widget.change(actions=[])
    widget.focus("#next")
    state = widget.press("Enter", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert state["actions"] == [["admit", 0], ["finish", 0], ["admit", 1]]
    assert "Found: pages 0, 1. Split before: page 2." in widget.said()
    widget.change(request=3)
    widget.focus("[name=request]")
    assert widget.press("ArrowUp")["request"] == 2
    widget.change(request=3)
    widget.focus("#admit")
    assert widget.press("Enter")["actions"][-1] == ["admit", 3]
    assert widget.press("Enter")["actions"][-2:] == [["admit", 1], ["admit", 3]]  # it runs already
    assert widget.element.locator("#next").get_attribute("aria-disabled") == "true"
    widget.focus("#finish")
    assert widget.press("Enter")["actions"][-1] == ["finish", 3]
    widget.focus("#play")
    widget.press("Enter")  # from the example's beginning
    page.wait_for_function("document.querySelector('prefix-tree').state.actions.length == 1")
    widget.press("Enter")
    assert page.url == widget.address
