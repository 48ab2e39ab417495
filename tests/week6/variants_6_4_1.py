"""Known programs of task 6.4.1, the choice of a replica."""

from functools import partial

import mlx.core as mx
from tests.week6.replicas import chosen, random_fleet

from tiny_llm_course.testkit.variants import Variants

known = Variants("6.4.1")

FLEETS = [
    ("ready 3/16 *, ready 1/16 *, ready 1/16 *", 6),
    ("ready 0/16 *, ready 2/16 +6, ready 0/16 *", 6),
    ("ready 4/16 +4, ready 7/16 +6, ready 4/16 *", 6),
    ("ready 2/16 +4, ready 1/16 +4, ready 1/16 +4", 6),
    ("ready 1/16 *, ready 5/16 +6", 6),
    ("ready 1/16 *, ready 6/16 +6", 6),
    ("ready 0/16 *, ready 1/16 +3", 6),
    ("ready 0/16 *, ready 1/16 +2", 6),
    ("ready 0/16 *, ready 1/16 +3", 7),
    ("ready 0/16 *, ready 1/16 -5", 6),
    ("ready 0/16 *, ready 1/16 -1", 2),
    ("ready 2/16 *, ready 3/3 +6", 6),
    ("ready 2/16 *, draining 0/16 +6", 6),
    ("ready 9/16 +6, dead 0/16 *, ready 5/16 *", 6),
    ("ready 9/16 +6, ready 1/1 *, ready 5/16 *", 6),
    ("ready 1/16 *, starting 0/16 *", 6),
    ("ready 15/16 *, ready 16/16 *", 6),
    ("ready 4/4 +6, ready 16/16 *", 6),
    ("ready 5/3 *, ready 6/16 *", 6),
    ("starting 0/16 *, draining 1/16 +6, dead 0/16 *", 6),
    ("ready 3/64 *, ready 2/4 *", 6),
    ("ready 2/16 *, ready 3/16 *, ready 2/16 *", 0),
    ("ready 0/16 *, ready 7/16 +6, ready 4/16 +6", 6),
    ("ready 0/16 *, ready 7/16 +6, ready 2/16 +4", 6),
]
FLEETS += [(random_fleet(seed, 3 + seed % 4, 6), 6) for seed in range(24)]


def number(program, fleets):
    """The number of each chosen replica; -1 for none."""
    return mx.array([-1 if (name := chosen(program, *each)) == "none" else int(name[1:]) for each in fleets])


for at in range(0, len(FLEETS), 4):
    known.probe()(partial(lambda fleets, program: number(program, fleets), FLEETS[at : at + 4]))

known.not_timed("it takes microseconds")

known.change(
    "no-prefixes",
    ("return preferred if cached and preferred.running <= least.running + MARGIN else least", "return least"),
    fact="the least loaded replica is chosen, whatever is cached",
    question="A conversation returns with its sixth turn. Which replica does not have to prefill the first five?",
)
known.change(
    "load-ignored",
    ("if cached and preferred.running <= least.running + MARGIN else", "if cached else"),
    fact="the replica with the prefix is chosen however loaded it is",
    question="Everybody asks about one document. How many replicas answer?",
)
known.change(
    "margin-excluded",
    ("preferred.running <= least.running + MARGIN", "preferred.running < least.running + MARGIN"),
    fact="the preferred replica must have fewer than MARGIN more requests, not at most MARGIN",
    question="The difference is exactly MARGIN. Is that more than MARGIN?",
)
known.change(
    "any-match",
    ("seen[preferred.name] >= max(1, ENOUGH * len(blocks))", "seen[preferred.name] > 0"),
    fact="one cached block is enough to prefer a replica, so a shared system prompt attracts all requests",
    question="All prompts begin with the same instructions. Which replica has seen their first block?",
)
known.change(
    "whole-prompt",
    ("ENOUGH * len(blocks)", "len(blocks)"),
    fact="a replica is preferred only if it has seen the whole prompt",
    question="The next turn of a conversation is longer than the last one. Which of its blocks are new?",
)
known.change(
    "half-excluded",
    ("seen[preferred.name] >= max(1, ENOUGH * len(blocks))", "seen[preferred.name] > ENOUGH * len(blocks)"),
    fact="exactly the share ENOUGH of the blocks is not enough",
    question="Three of six blocks are cached, and ENOUGH is 0.5. What does the docstring say?",
)
known.change(
    "half-rounded-down",
    ("max(1, ENOUGH * len(blocks))", "max(1, int(ENOUGH * len(blocks)))"),
    fact="the share ENOUGH is rounded down to whole blocks",
    question="Three of seven blocks: is that at least half?",
)
known.change(
    "full-ones-too",
    ('replica.state == "ready" and replica.running < replica.limit', 'replica.state == "ready"'),
    fact="a replica at its limit is chosen",
    question="What does a replica do with a request beyond its limit?",
)
known.change(
    "one-beyond-the-limit",
    ("replica.running < replica.limit]", "replica.running <= replica.limit]"),
    fact="a replica takes one request more than its limit",
    question="The limit is 16, and 16 are running. How many run with the next one?",
)
known.change(
    "draining-ones-too",
    ('replica.state == "ready" and', 'replica.state in ("ready", "draining") and'),
    fact="a draining replica gets new requests",
    question="A replica finishes what it has and then stops. When, if it is sent more?",
)
known.change(
    "starting-ones-too",
    ('replica.state == "ready" and', 'replica.state in ("ready", "starting") and'),
    fact="a starting replica gets requests",
    question="A process is loading its model. What happens to a connection to its port?",
)
known.change(
    "dead-ones-too",
    ('replica.state == "ready" and', 'replica.state in ("ready", "dead") and'),
    fact="a dead replica gets requests, and is the least loaded one",
    question="Which replica of all has the fewest requests running?",
)
known.change(
    "all-but-dead-ones",
    ('replica.state == "ready" and', 'replica.state != "dead" and'),
    fact="only dead replicas are left out, so starting and draining ones get requests",
    question="How many of the four states can take a request?",
)
known.change(
    "last-of-equals",
    ("least = min(open_ones,", "least = min(reversed(open_ones),"),
    fact="of equally loaded replicas the last one is chosen",
    question="Which of several equal elements does min return? Of which sequence?",
)
known.change(
    "any-of-equal-prefixes",
    ("key=lambda replica: (seen[replica.name], -replica.running)", "key=lambda replica: seen[replica.name]"),
    fact="of replicas with the same cached prefix, the first one is chosen, not the least loaded one",
    question="Two replicas have the same blocks cached. What else distinguishes them?",
)
known.change(
    "order-of-blocks-ignored",
    (
        "{replica.name: replica.prefixes.match(blocks) for replica in open_ones}",
        "{r.name: sum(r.prefixes.match([block]) for block in blocks) for r in open_ones}",
    ),
    fact="all cached blocks are counted, not only the leading ones",
    question="A cache has blocks 2 to 6 of a prompt, but not block 1. From where must it prefill?",
)
known.change(
    "margin-as-a-factor",
    ("preferred.running <= least.running + MARGIN", "preferred.running <= least.running * MARGIN"),
    fact="the preferred replica may have MARGIN times as many requests as the least loaded one",
    question="The least loaded replica is idle. How many may the preferred one have running?",
)
known.change(
    "second-longest",
    (
        "preferred = max(open_ones,",
        "preferred = max((r for r in open_ones if r.running <= least.running + MARGIN),",
    ),
    fact="the longest prefix is looked for only among replicas within the margin, so that the second longest may win",
    question="The replica with the longest prefix has too many requests. Which one does the docstring choose then?",
)
known.change(
    "least-of-all",
    ("preferred.running <= least.running + MARGIN", "preferred.running <= min(r.running for r in replicas) + MARGIN"),
    fact="the margin is counted from the least loaded of all replicas, also from one that cannot take the request",
    question="A dead replica runs nothing. Can it make the preferred one too busy?",
)
known.together("whole-prompt", "half-excluded", makes="no-prefixes")


@known.accepted("sorted, and in two passes")
def sort_twice(replicas, blocks):
    order = sorted(
        (each for each in replicas if each.state == "ready" and each.limit - each.running > 0),
        key=lambda each: each.running,
    )
    if not order:
        return None
    best, found = order[0], 0
    for each in order:
        if (count := each.prefixes.match(blocks)) > found:
            best, found = each, count
    few = 2 * found < len(blocks) or found == 0
    return order[0] if few or best.running - order[0].running > 4 else best


known.accepted_change(
    "only replicas within the margin are compared by order",
    ("seen = {replica.name: replica.prefixes.match(blocks) for replica in open_ones}", "seen = {}"),
    (
        "preferred = max(open_ones,",
        "seen |= {replica.name: replica.prefixes.match(blocks) for replica in replicas}\npreferred = max(open_ones,",
    ),
)
