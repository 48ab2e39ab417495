"""Train an adapter on chat examples; the model's own weights get no gradient and no optimizer state."""

from collections.abc import Iterable, Iterator, Sequence

import mlx.core as mx

from ..config import ModelConfig
from ..dataset.loss import cross_entropy
from ..dataset.packing import IGNORE
from ..optimizers.adamw import AdamW
from ..optimizers.clipping import clip_by_global_norm
from ..qwen3_cached.model import Qwen3CachedModel
from .adapter import Adapter, LoRAParts, Params

Batch = tuple[mx.array, mx.array]  # tokens and targets, N x L each


def batch_examples(examples: Sequence[tuple[list[int], list[int]]], padding: int) -> Batch:
    """Return the examples of `chat_example` as one batch: shorter ones get the token `padding`, with IGNORE targets."""
    longest = max(len(tokens) for tokens, _ in examples)
    tokens = [tokens + [padding] * (longest - len(tokens)) for tokens, _ in examples]
    targets = [targets + [IGNORE] * (longest - len(targets)) for _, targets in examples]
    return mx.array(tokens), mx.array(targets)


def adapter_loss(weights: Params, config: ModelConfig, params: Params, alpha: float, batch: Batch) -> mx.array:
    """Return the mean loss of the model with an adapter's weights: to be differentiated with respect to these alone."""
    model = Qwen3CachedModel(config, {**params, **weights}, LoRAParts(alpha))
    tokens, targets = batch
    return cross_entropy(model(tokens, all_positions=True), targets)  # padding is last, so no token sees it


def finetune(
    config: ModelConfig, params: Params, adapter: Adapter, batches: Iterable[Batch], optimizer: AdamW, clip: float = 1.0
) -> Iterator[tuple[Adapter, mx.array]]:
    """Take one step per batch; yield the adapter after it and the loss before it, a scalar."""
    step = mx.value_and_grad(adapter_loss)
    weights, state = adapter.weights, optimizer.init(adapter.weights)
    for batch in batches:
        loss, grads = step(weights, config, params, adapter.alpha, batch)
        grads, _ = clip_by_global_norm(grads, clip)
        weights, state = optimizer.update(weights, grads, state)
        mx.eval(weights, state, loss)
        yield Adapter(weights, adapter.alpha), loss
