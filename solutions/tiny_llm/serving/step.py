"""The interfaces of a step's parts, and the record of what a step did."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from .kv_cache import KVCacheManager
from .request import Chunk, Request

Model = Callable[[list[Chunk], KVCacheManager], mx.array]  # returns R x V, a row for each of the logits wanted
Policy = Callable[[Sequence[Request], int], list[Chunk]]  # takes the running requests, the oldest first, and the budget
Sampler = Callable[[mx.array, list[Chunk]], list[list[int]]]  # returns the new tokens of each chunk


@dataclass
class Step:
    """What one step did: it admits, computes and samples, in this order.

    - Admit: the queue's next request, as long as fewer than `max_num_seqs` run and the KV cache admits it; in static
      mode only if none was running. The running requests stay in the order of their `request_id`.
    - Compute: the policy's chunks whose KV slots are reserved, by `reserve` or else by `preempt_until_reserved`. No
      chunk of a request that was preempted in this step is computed.
    - Sample: each new token is appended to its request's output, up to one of `eos_ids`, which is not appended, or one
      for which `stop`, called once the token is appended, returns True, or the last of `max_tokens`. A finished request
      is removed at once; `finish_reason` holds the reason. The queue is charged a chunk's tokens.
      `num_computed_tokens` counts what was computed, less the draft tokens at the end that were rejected, and is at
      most `num_tokens`: the KV cache is truncated to it. `stop` may cancel any request in the middle of a step, even
      its own: a cancelled request gets no more tokens, and whatever `stop` returns, its `finish_reason` stays
      "cancelled".
    """

    chunks: list[Chunk] = field(default_factory=list)  # what was computed
    new: list[list[int]] = field(default_factory=list)  # for each chunk, the tokens appended to its request's output
    admitted: list[Request] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    finished: list[Request] = field(default_factory=list)  # not those that were cancelled
