"""Known programs of task 3.1.1, attention of a ragged batch."""

import mlx.core as mx
from tests.week3.ragged import Calls, attention_of
from tiny_llm_solution.serving import request
from tiny_llm_solution.serving.kv_cache import DenseKVCache

from tiny_llm_course.testkit.inputs import causal, normals
from tiny_llm_course.testkit.methods import completed
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.1")


def run(program, seed, *calls, layer=1, dtype=mx.float32, requests=3, length=5):
    draw = normals(seed, dtype)
    query = draw(requests, length, 6, 4)
    key, value = draw(requests, length, 2, 4), draw(requests, length, 2, 4)
    return attention_of(request, completed(DenseKVCache, program), program)(query, key, value, Calls(calls), layer)


known.probe_table(
    # One request, all its tokens at once.
    one_call=lambda program: run(program, 1, ((0, 5),)),
    one_request=lambda program: run(program, 2, ((0, 2),), ((0, 1),), ((0, 2),)),
    one_token=lambda program: run(program, 3, ((0, 1),)),
    two_prompts=lambda program: run(program, 4, ((0, 3), (1, 2))),
    # The second starts while the first is running, and comes first.
    late_one=lambda program: run(program, 5, ((1, 3),), ((1, 1), (0, 4)), ((0, 1), (2, 2), (1, 1))),
    forgotten=lambda program: run(program, 6, ((0, 3), (1, 2)), ((0, -2), (1, 1)), ((1, 1), (0, 2))),
    first_layer=lambda program: run(program, 7, ((0, 2), (1, 3)), ((0, 1), (1, 1)), layer=0),
    # Three decoding requests: a token of each.
    writing=lambda program: run(program, 8, ((0, 1), (1, 2), (2, 3)), ((0, 1), (1, 1), (2, 1))),
)


known.probe_table(
    mx.float16, half=lambda program: run(program, 9, ((0, 3), (1, 2)), ((0, 1), (1, 1)), dtype=mx.float16)
)


@known.sized("a token of each of 8 requests with 192 cached, 16 heads, D 128")
def sized(program):
    draw, kv_cache = normals(1), completed(DenseKVCache, program)(1)
    requests = [request.Request([0] * 193, 1) for _ in range(8)]
    for one in requests:
        kv_cache.admit(one)
        chunk = request.Chunk(one, 0, [0] * 192, 0)
        mx.eval(kv_cache.attend(0, draw(192, 16, 128), draw(192, 8, 128), draw(192, 8, 128), [chunk]))
    chunks = [request.Chunk(one, 192, [0], 1) for one in requests]
    new = draw(8, 16, 128), draw(8, 8, 128), draw(8, 8, 128)

    def attend():
        found = program(kv_cache, 0, *new, chunks)
        for one in requests:
            kv_cache.truncate(one, 192)
        return found

    return attend


known.change(
    "first-layer-s-cache",
    ("[chunk.request][layer]", "[chunk.request][0]"),
    fact="every layer uses the request's first cache",
    question="Which layer's keys does the first of a request's caches hold?",
)
known.change(
    "one-request-s-cache",
    ("self._caches[chunk.request]", "self._caches[chunks[0].request]"),
    fact="every chunk is appended to the caches of the first chunk's request",
    question="Whose keys does the second chunk's last query attend to?",
)
known.change(
    "oldest-request-s-cache",
    ("self._caches[chunk.request]", "next(iter(self._caches.values()))"),
    fact="every chunk is appended to the caches of the request that was admitted first",
    question="Whose keys does the second chunk's last query attend to?",
)
known.change(
    "caches-by-place",
    ("attended, at = [], 0", "attended, at, caches = [], 0, list(self._caches.values())"),
    ("self._caches[chunk.request]", "caches[chunks.index(chunk)]"),
    fact="the i-th chunk uses the caches of the i-th admitted request",
    question="Are the chunks in the order in which their requests were admitted?",
)
known.change(
    "rows-by-position",
    ("slice(at, at := at + len(chunk.tokens))", "slice(chunk.start, chunk.end)"),
    fact="a chunk's rows are indexed by the positions of its tokens in their sequence",
    question="Two requests have a chunk of one token each, both at position 7. Which rows of query are theirs?",
)
known.change(
    "first-rows-for-all",
    ("at := at + len(chunk.tokens)", "len(chunk.tokens)"),
    fact="every chunk takes its rows from row 0 on",
    question="If the first chunk has three tokens, where do the second chunk's rows begin?",
)
known.change(
    "one-row-each",
    ("at := at + len(chunk.tokens))", "at := at + 1)"),
    fact="every chunk takes one row",
    question="How many tokens has the first chunk of a new request?",
)
known.change(
    "no-mask",
    (', mask="causal"', ""),
    fact="the causal mask is missing, so a token attends to later tokens of its own chunk",
    question="A prompt of three tokens comes in one chunk. May the first token attend to the third?",
)
known.change(
    "mask-upper-left",
    ('mask="causal"', "mask=mx.where(mx.arange(keys.shape[2]) <= mx.arange(q.shape[2])[:, None], 0.0, -mx.inf)"),
    fact="the mask is aligned to the upper left corner, so the first new token sees only the first key",
    question="Three tokens are cached and one is new. Which of the four may it attend to?",
)
known.change(
    "new-tokens-alone",
    ("seen = scaled", "keys, values = (k, v) if len(chunk.tokens) > 1 else (keys, values)\nseen = scaled"),
    fact="a chunk of several tokens attends only to its own tokens and ignores the cached ones",
    question="The second half of a prompt comes. Which tokens precede its first?",
)
known.change(
    "mask-for-prompts-alone",
    ('mask="causal"', 'mask="causal" if chunk.start == 0 else None'),
    fact="only chunks at the start of a sequence are masked",
    question="A second chunk of three tokens comes. May its first token attend to its last?",
)
known.change(
    "cache-unread",
    ("keys, values = self._caches", "self._caches"),
    ("q, keys, values, mask", "q, k, v, mask"),
    fact="new queries attend only to the new keys and values of their chunk",
    question="What do you do with the two arrays that update_and_fetch returns?",
)
known.change(
    "cache-unwritten",
    (
        "keys, values = self._caches[chunk.request][layer].update_and_fetch(k, v)",
        """
        cache = self._caches[chunk.request][layer]
        keys, values = cache.update_and_fetch(k, v)
        if chunk.start:
            cache.rewind(k.shape[2])
        """,
    ),
    fact="only the keys and values of a request's first chunk stay in its caches",
    question="How many keys should be cached after a prompt of three tokens and two more?",
)
known.change(
    "keys-as-values",
    ("update_and_fetch(k, v)", "update_and_fetch(k, k)"),
    fact="the keys are also stored as values",
    question="Which does attention average: keys or values?",
)
known.change(
    "all-see-all",
    (
        "return mx.concatenate(attended)",
        """
        q, k, v = (x.swapaxes(0, 1)[None] for x in (query, key, value))
        together = scaled_dot_product_attention_grouped(q, k, v, mask="causal")[0].swapaxes(0, 1)
        return together if all(chunk.start == 0 for chunk in chunks) else mx.concatenate(attended)
        """,
    ),
    fact="prompts that start in the same call are one sequence, so a request attends to rows of earlier requests",
    question="May the second request's first token attend to a token of the first request?",
)
known.change(
    "backwards",
    ("mx.concatenate(attended)", "mx.concatenate(attended[::-1])"),
    fact="the chunks' outputs are concatenated in reverse order",
    question="In which order are the rows of query, and in which order are yours?",
)
known.change(
    "joined-by-number",
    (
        "return mx.concatenate(attended)",
        """
        order = sorted(range(len(chunks)), key=lambda i: chunks[i].request.request_id)
        return mx.concatenate([attended[i] for i in order])
        """,
    ),
    fact="the chunks' outputs are concatenated in the order of their requests' ids",
    question="A policy may schedule the youngest request first. In which order are the rows of query then?",
)
known.change(
    "one-token-chunks-first",
    (
        "return mx.concatenate(attended)",
        """
        order = sorted(range(len(chunks)), key=lambda i: len(chunks[i].tokens) > 1)
        return mx.concatenate([attended[i] for i in order])
        """,
    ),
    fact="the outputs of chunks of one token are concatenated before those of longer chunks",
    question="A prompt's chunk comes before a decoding request's. In which order are the rows of query then?",
)
known.change(
    "continued-chunks-first",
    (
        "return mx.concatenate(attended)",
        """
        order = sorted(range(len(chunks)), key=lambda i: chunks[i].start == 0)
        return mx.concatenate([attended[i] for i in order])
        """,
    ),
    fact="the outputs of chunks that continue a sequence are concatenated before those of chunks that start one",
    question="A new request's chunk comes before a running one's. In which order are the rows of query then?",
)
known.change(
    "padding-not-masked",
    ("attended, at = [], 0", "attended, at, cached = [], 0, []"),
    ("seen = scaled", "cached.append((keys, values))\nseen = scaled"),
    (
        "return mx.concatenate(attended)",
        """
        if len(chunks) == 1 or any(len(chunk.tokens) > 1 for chunk in chunks):
            return mx.concatenate(attended)
        longest = max(keys.shape[2] for keys, _ in cached)
        keys, values = (
            mx.concatenate([mx.pad(x, [(0, 0), (0, 0), (0, longest - x.shape[2]), (0, 0)]) for x in each])
            for each in zip(*cached)
        )
        return scaled_dot_product_attention_grouped(query[:, :, None], keys, values)[:, :, 0]
        """,
    ),
    fact="decoding requests are padded to the longest one with zeros, and the padding is not masked",
    question="What is the softmax weight of a key of zeros, whose score is 0?",
)
known.change(
    "heads-not-put-back",
    ("attended.append(seen[0].swapaxes(0, 1))", "attended.append(seen[0].reshape(-1, *query.shape[1:]))"),
    fact="a chunk's output, H x L x D, is reshaped to L x H x D without swapping the axes",
    question="Which numbers come first in an array of H x L x D: all of one head, or all of one token?",
)
known.change(
    "heads-not-swapped",
    ("(x[own].swapaxes(0, 1)[None] for", "(x[own].reshape(1, x.shape[1], -1, x.shape[2]) for"),
    fact="a chunk's rows, L x heads x D, are reshaped to heads x L x D without swapping the axes",
    question="How do swapaxes and reshape differ for an array of 2 x 3?",
)
known.change(
    "float32-given",
    ("return mx.concatenate(attended)", "return mx.concatenate(attended).astype(mx.float32)"),
    fact="the result is always float32, whatever query's dtype",
    question="Which dtype does the docstring promise?",
)


@known.accepted("one-padded-batch")
def one_padded_batch(self, layer, query, key, value, chunks):
    """All requests at once: rows and keys are padded to the longest, with a mask for the padding."""
    ends = [sum(len(chunk.tokens) for chunk in chunks[: i + 1]) for i in range(len(chunks))]
    begins = [end - len(chunk.tokens) for end, chunk in zip(ends, chunks, strict=True)]
    found, masks, most_rows = [], [], max(len(chunk.tokens) for chunk in chunks)
    for begin, end, chunk in zip(begins, ends, chunks, strict=True):
        k, v = (x[begin:end].swapaxes(0, 1)[None] for x in (key, value))
        found.append(self._caches[chunk.request][layer].update_and_fetch(k, v))
    most_keys = max(keys.shape[2] for keys, _ in found)

    def padded(x, length, axis):
        widths = [(0, 0)] * x.ndim
        widths[axis] = (0, length - x.shape[axis])
        return mx.pad(x, widths)

    for chunk, (keys, _) in zip(chunks, found, strict=True):
        own = causal(len(chunk.tokens), keys.shape[2], query.dtype)
        own = mx.pad(own, [(0, 0), (0, most_keys - own.shape[1])], constant_values=-mx.inf)
        masks.append(mx.pad(own, [(0, most_rows - own.shape[0]), (0, 0)]))
    q = mx.concatenate(
        [padded(query[a:b].swapaxes(0, 1)[None], most_rows, 2) for a, b in zip(begins, ends, strict=True)]
    )
    keys, values = (mx.concatenate([padded(each[i], most_keys, 2) for each in found]) for i in (0, 1))
    grouped = mx.unflatten(q, 1, (keys.shape[1], -1))
    scores = (grouped @ keys[:, :, None].swapaxes(-1, -2)) * query.shape[-1] ** -0.5 + mx.stack(masks)[:, None, None]
    seen = mx.softmax(scores, axis=-1, precise=True) @ values[:, :, None]
    seen = seen.flatten(1, 2).swapaxes(1, 2)
    return mx.concatenate([seen[i, : len(chunk.tokens)] for i, chunk in enumerate(chunks)]).astype(query.dtype)


@known.accepted("mlx-s-own-rows")
def token_by_token(self, layer, query, key, value, chunks):
    """One token after another, as if each were a chunk."""
    rows, at = [], 0
    for chunk in chunks:
        cache = self._caches[chunk.request][layer]
        for row in range(at, at + len(chunk.tokens)):
            keys, values = cache.update_and_fetch(key[row][None, :, None], value[row][None, :, None])
            keys, values = keys[0], values[0]
            grouped = mx.unflatten(query[row], 0, (keys.shape[0], -1))
            scores = (grouped @ keys.swapaxes(-1, -2)) * query.shape[-1] ** -0.5
            rows.append((mx.softmax(scores, axis=-1, precise=True) @ values).flatten(0, 1))
        at += len(chunk.tokens)
    return mx.stack(rows)
