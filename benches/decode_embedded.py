"""What `decode.py` measures on the model that comes with the course; prints JSON: `python decode_embedded.py TURNS`."""

import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable

from tiny_llm_course.doctor import blas

blas.load()

import mlx.core as mx  # noqa: E402

from tiny_llm_course.checkpoints.held_out import shipped_stories  # noqa: E402
from tiny_llm_course.engine.engine import Engine, Sampling, load_engine  # noqa: E402
from tiny_llm_course.paths import EMBEDDED_MODEL  # noqa: E402

PROMPT, TOKENS = "Once upon a time", 200
STORIES = 12
SLOW = {"week1": 1}  # it takes most of a minute


def main() -> None:
    """Let all take turns, and judge 8-bit activations."""
    turns = int(sys.argv[1])
    mx.set_default_device(mx.Device(mx.cpu))
    engines = {name: _stage(name) for name in ("week1", "kv-cache", "quantized", "cpu-kernel", "fused")}
    try:
        engines["mlx-lm"] = _mlx_lm()
    except ImportError:
        print("mlx-lm is not installed here: it is left out", file=sys.stderr)
    taken: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(turns):
        for name, run in engines.items():
            if turn < SLOW.get(name, turns):
                begun = time.perf_counter()
                count = run()
                taken[name].append(count / (time.perf_counter() - begun))
    found = {name: statistics.median(each) for name, each in taken.items()}
    fused = load_engine(None, True, None, "fused")
    ends = fused.checkpoint.eos_ids
    stories = [[min(ends), *fused.encode(story)] for story in shipped_stories()[:STORIES]]
    found["perplexity"] = _perplexity(fused, stories)
    fused.model.int8 = True
    found["perplexity, 8 bits"] = _perplexity(fused, stories)
    print(json.dumps(found))


def _stage(name: str) -> Callable[[], int]:
    """Writes 200 tokens greedily by a stage of the solution."""
    engine = load_engine(None, True, "float32", name)
    prompt = engine.encode(PROMPT)

    def run() -> int:
        answer = engine.answer(prompt, TOKENS, engine.sampler(Sampling(temp=0.0)))
        for _ in answer.pieces:
            pass
        return answer.tokens

    return run


def _mlx_lm() -> Callable[[], int]:
    """The same by mlx-lm, in float32 as well."""
    from mlx_lm import load
    from mlx_lm.generate import generate_step

    model, tokenizer, *_ = load(str(EMBEDDED_MODEL))
    model.set_dtype(mx.float32)
    prompt = mx.array(tokenizer.encode(PROMPT))
    return lambda: sum(1 for _ in generate_step(prompt, model, max_tokens=TOKENS))


def _perplexity(engine: Engine, stories: Iterable[list[int]]) -> float:
    """Of stories read token by token, as they are when a model writes: then it is that a product has one row."""
    losses = []
    for story in stories:
        caches = engine.model.new_caches()
        for token, after in itertools.pairwise(story):
            logits = engine.model(mx.array([[token]]), caches)[0, 0].astype(mx.float32)
            losses.append((mx.logsumexp(logits) - logits[after]).item())
    return math.exp(statistics.mean(losses))


if __name__ == "__main__":
    main()
