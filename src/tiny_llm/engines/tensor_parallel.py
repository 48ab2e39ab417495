"""Serving by tensor-parallel ranks: rank 0 schedules requests, and the others compute the same chunks.

Before each forward pass, rank 0 sends a plan to the others: integers that say which tokens of which requests to
compute, and which requests have left. Each rank stores the keys and values of its own heads.
"""

import mlx.core as mx

from ..config import ModelConfig
from ..distributed.group import Group
from ..paged.kv_cache import PagedKVCache
from ..paged.storage import PagedArrays
from ..serving.policies import shared_prefill
from ..serving.queue import FairQueue
from ..serving.ragged import RaggedModel
from ..serving.request import Chunk, Request
from ..serving.scheduler import Scheduler
from ..tensor_parallel.model import parallel_parts
from ..tensor_parallel.sampling import gather_logits
from ..tensor_parallel.shards import Partition
from .modes import Limits, Weights


def largest(group: Group, number: int) -> int:
    """Return the largest of all ranks' integers."""
    found: int = group.all_max(mx.array(number)).item()  # type: ignore[assignment]
    return found


class _KVCache(PagedKVCache):
    """Pages of a rank's own heads, and which requests have left since the last plan."""

    def __init__(self, config: ModelConfig, limits: Limits, dtype: mx.Dtype, group: Group) -> None:
        layers, kv_heads, dims = config.num_hidden_layers, config.num_key_value_heads, config.head_dim
        of_page = 2 * layers * kv_heads * dims * dtype.size * limits.page_size
        most = -(-limits.max_num_seqs * config.max_position_embeddings // limits.page_size)
        count = min(limits.kv_cache_bytes // of_page, most)
        count = -largest(group, -count)  # as many on all ranks
        if count < 1:
            raise ValueError(f"{limits.kv_cache_bytes} bytes hold no page of {of_page} bytes")
        super().__init__(PagedArrays(layers, count, limits.page_size, kv_heads, dims, dtype))
        self.released: list[int] = []

    def release(self, request: Request) -> None:
        super().release(request)
        self.released.append(request.request_id)


class _Rank:
    """A rank's model and KV cache."""

    def __init__(self, config: ModelConfig, weights: Weights, limits: Limits, group: Group) -> None:
        partition = Partition(config, group.rank, group.size)
        self.group, self.vocabulary, self.vocab_size = group, partition.vocabulary, config.vocab_size
        self.model = RaggedModel(partition.config, weights, parallel_parts(config, weights, group))
        self.kv_cache = _KVCache(partition.config, limits, weights["model.norm.weight"].dtype, group)

    def logits(self, chunks: list[Chunk]) -> mx.array:
        """Return R x V, on every rank."""
        return gather_logits(self.group, self.vocabulary, self.vocab_size, self.model(chunks, self.kv_cache))

    def share(self, plan: list[int]) -> list[int]:
        """Return rank 0's plan, on every rank; the others give an empty one."""
        length = largest(self.group, len(plan))
        if not length:
            return []
        mine = mx.array(plan or [0] * length, mx.int32)
        shared: list[int] = self.group.all_sum(mine).tolist()  # type: ignore[assignment]
        return shared


class Leader(Scheduler):
    """The scheduler of rank 0. `close` lets the other ranks end."""

    def __init__(self, config: ModelConfig, weights: Weights, limits: Limits, group: Group) -> None:
        """Create a scheduler with no requests, like the mode `paged`.

        Args:
            config: of the whole model.
            weights: the rank's, as `Partition.take` returns them.
            limits: resources and options; `kv_cache_bytes` are each rank's.
            group: the ranks. All others must call `follow` with equal limits.

        Raises:
            ValueError: the model cannot be divided, or kv_cache_bytes do not hold a page.
        """
        self.rank = _Rank(config, weights, limits, group)
        super().__init__(
            lambda chunks, _: self._logits(chunks),
            self.rank.kv_cache,
            max_num_seqs=limits.max_num_seqs,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            policy=shared_prefill,
            queue=FairQueue(),
        )

    def _logits(self, chunks: list[Chunk]) -> mx.array:
        self.rank.share(encode_plan(self.rank.kv_cache.released, chunks))
        self.rank.kv_cache.released.clear()
        return self.rank.logits(chunks)

    def close(self) -> None:
        """Send the plan without chunks, after which the other ranks' `follow` returns."""
        self.rank.share([])


def follow(config: ModelConfig, weights: Weights, limits: Limits, group: Group) -> None:
    """Compute what rank 0 plans, until it closes; the arguments are `Leader`'s.

    Raises:
        ValueError: as `Leader`.
    """
    rank, requests = _Rank(config, weights, limits, group), dict[int, Request]()
    while plan := rank.share([]):
        released, parts = decode_plan(plan)
        for number in released:
            if number in requests:  # otherwise it has left before its first chunk
                rank.kv_cache.release(requests.pop(number))
        chunks = []
        for number, start, num_logits, tokens in parts:
            if number not in requests:
                requests[number] = Request(tokens, 1, request_id=number)
                rank.kv_cache.admit(requests[number])
            request = requests[number]
            rank.kv_cache.truncate(request, start)  # a step that failed is computed again
            request.num_computed_tokens = start
            rank.kv_cache.reserve(request, len(tokens))
            chunks.append(Chunk(request, start, tokens, num_logits))
        mx.eval(rank.logits(chunks))


Part = tuple[int, int, int, list[int]]  # a request's number, a chunk's start, its number of logits, its tokens


def encode_plan(released: list[int], chunks: list[Chunk]) -> list[int]:
    """Return the requests that have left, and the chunks, as one list of integers, never empty."""
    plan = [len(released), *released]
    for chunk in chunks:
        plan += [chunk.request.request_id, chunk.start, chunk.num_logits, len(chunk.tokens), *chunk.tokens]
    return plan


def decode_plan(plan: list[int]) -> tuple[list[int], list[Part]]:
    """Return what `encode_plan` was given; each chunk as a `Part`."""
    at, parts = 1 + plan[0], list[Part]()
    while at < len(plan):
        number, start, num_logits, count = plan[at : at + 4]
        parts.append((number, start, num_logits, plan[at + 4 : at + 4 + count]))
        at += 4 + count
    return plan[1 : 1 + plan[0]], parts
