"""Parts of a training step of the embedded model's architecture, forward and backward, of arrays and fused.

MLX must get its BLAS before this module is imported. `benches/training.py` calls it.
"""

import time
from collections.abc import Callable, Sequence

import mlx.core as mx
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.dataset.loss import cross_entropy
from tiny_llm_solution.dataset.packing import document_mask
from tiny_llm_solution.optimizers.adamw import AdamW
from tiny_llm_solution.optimizers.clipping import clip_by_global_norm
from tiny_llm_solution.training.fused import (
    fused_attend,
    fused_cross_entropy,
    fused_rms_norm,
    fused_swiglu,
)
from tiny_llm_solution.training.model import attend, initial_params, swiglu, trainable_linear, trainable_norm
from training_ways import CONFIG, LENGTH, ROWS

Step = Callable[[], object]
TOKENS = ROWS * LENGTH


def both_ways(function: Callable[..., mx.array], *shapes: Sequence[int]) -> Step:
    """Return a call that computes a function of random arrays, and their gradients, as one compiled function."""
    arrays = [mx.random.normal(shape, key=mx.random.key(i)) for i, shape in enumerate(shapes)]
    dy = mx.random.normal(function(*arrays).shape, key=mx.random.key(9))
    mx.eval(arrays, dy)
    compiled = mx.compile(lambda *given: mx.vjp(function, list(given), [dy]))
    return lambda: mx.eval(compiled(*arrays))


def parts() -> dict[str, list[tuple[int, Step, Step]]]:
    """Return for each part its calls: how many a step has, the call of arrays, and the fused one."""
    config = ModelConfig.from_dict(CONFIG)
    size, width, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    heads, kv_heads, dims = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    matrices = [(size, heads * dims), (size, kv_heads * dims), (size, kv_heads * dims), (heads * dims, size)]
    matrices += [(size, width), (size, width), (width, size)]
    linears = [(layers, n, m) for n, m in matrices] + [(1, size, config.vocab_size)]
    norms = [(2 * layers + 1, TOKENS, size), (layers, TOKENS * heads, dims), (layers, TOKENS * kv_heads, dims)]
    ids, targets = mx.zeros((ROWS, LENGTH), mx.int32), mx.zeros((TOKENS,), mx.int32)
    mask = document_mask(ids)
    rows = [(ROWS, LENGTH, count, dims) for count in (heads, kv_heads, kv_heads)]
    eps = config.rms_norm_eps
    products = [(n, both_ways(trainable_linear, (TOKENS, i), (o, i))) for n, i, o in linears]
    update = optimizer(config)
    return {
        "matrix products": [(n, call, call) for n, call in products],
        "attention": [
            (
                layers,
                both_ways(lambda q, k, v: attend(q, k, v, mask), *rows),
                both_ways(lambda q, k, v: fused_attend(q, k, v, ids), *rows),
            )
        ],
        "RMSNorm": [
            (
                n,
                both_ways(trainable_norm(eps), (count, dim), (dim,)),
                both_ways(fused_rms_norm(eps), (count, dim), (dim,)),
            )
            for n, count, dim in norms
        ],
        "SwiGLU": [
            (
                layers,
                both_ways(swiglu, (TOKENS, width), (TOKENS, width)),
                both_ways(fused_swiglu, (TOKENS, width), (TOKENS, width)),
            )
        ],
        "cross-entropy": [
            (
                1,
                both_ways(lambda z: cross_entropy(z, targets), (TOKENS, config.vocab_size)),
                both_ways(lambda z: fused_cross_entropy(z, targets), (TOKENS, config.vocab_size)),
            )
        ],
        "clipping and AdamW": [(1, update, update)],
    }


def optimizer(config: ModelConfig) -> Step:
    """Return a call that clips gradients and takes a step of AdamW."""
    params, adamw = initial_params(config, 0), AdamW(1e-3)
    state = adamw.init(params)

    def update() -> None:
        grads, norm = clip_by_global_norm(params, 1.0)
        mx.eval(norm, adamw.update(params, grads, state))

    return update


def best(call: Step, times: int) -> float:
    """Return the shortest wall time of some calls, in seconds: other programs only ever add to it."""
    call()
    took = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return min(took)


def measured(times: int) -> dict[str, dict[str, float]]:
    """Return the milliseconds of each part in a step, of arrays and fused."""
    found = {}
    for name, calls in parts().items():
        found[name] = {
            "arrays": 1e3 * sum(count * best(plain, times) for count, plain, _ in calls),
            "fused": 1e3 * sum(count * best(fused, times) for count, _, fused in calls),
        }
    return found
