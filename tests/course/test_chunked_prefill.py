"""Chunked prefill in the scheduler itself, over a model: whatever the budget, all texts are what each is alone."""

from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, random_model, random_tokens

from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.properties import property_test

load_solution()
from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.serving.kv_cache import DenseKVCache  # noqa: E402
from tiny_llm_solution.serving.policies import chunked_prefill, unchunked_prefill  # noqa: E402
from tiny_llm_solution.serving.queue import FairQueue  # noqa: E402
from tiny_llm_solution.serving.ragged import RaggedModel  # noqa: E402
from tiny_llm_solution.serving.request import Request  # noqa: E402
from tiny_llm_solution.serving.scheduler import Scheduler  # noqa: E402

CHECKPOINT = random_model(QWEN3, 1)
CONFIG = ModelConfig.from_dict(CHECKPOINT.config)
MODEL = RaggedModel(CONFIG, CHECKPOINT.weights)


def served(scheduler, texts):
    """The texts of all requests, and how many tokens each step has read. A text comes before a step of its own."""
    requests, read = [], []
    while len(requests) < len(texts) or scheduler.waiting or scheduler.running:
        while len(requests) < len(texts) and texts[len(requests)][0] <= len(read):
            _, prompt, most, user = texts[len(requests)]
            requests.append(Request(prompt, most, user=user))
            scheduler.submit(requests[-1])
        read.append(sum(len(chunk.tokens) for chunk in scheduler.step().chunks))
        assert len(read) < 1000
    return [request.output for request in requests], read


@property_test
@given(
    texts=st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 25), st.integers(1, 5), st.sampled_from(["ann", "bob"])),
        min_size=1,
        max_size=5,
    ),
    budget=st.integers(1, 12),
    slots=st.integers(1, 4),
)
def test_whatever_the_budget(texts, budget, slots):
    prompts = [random_tokens(number, 1, length).tolist()[0] for number, (_, length, _, _) in enumerate(texts)]
    alone = []
    for prompt, (_, _, most, user) in zip(prompts, texts, strict=True):
        scheduler = Scheduler(MODEL, DenseKVCache(CONFIG.num_hidden_layers), policy=unchunked_prefill)
        alone += served(scheduler, [(0, prompt, most, user)])[0]
    given_texts = [(came, prompt, most, user) for prompt, (came, _, most, user) in zip(prompts, texts, strict=True)]
    memory = DenseKVCache(CONFIG.num_hidden_layers)
    scheduler = Scheduler(
        MODEL, memory, max_num_seqs=slots, max_num_batched_tokens=budget, policy=chunked_prefill, queue=FairQueue()
    )
    found, read = served(scheduler, sorted(given_texts, key=lambda text: text[0]))
    order = sorted(range(len(texts)), key=lambda number: texts[number][0])
    assert found == [alone[number] for number in order]
    assert max(read) <= budget
    assert sum(read) == sum(len(prompt) + most - 1 for _, prompt, most, _ in given_texts)
