"""Known programs of task 3.1.1, attention of a ragged batch."""

import mlx.core as mx
from tests.week3.ragged import Calls, attention_of
from tiny_llm_solution.serving import request
from tiny_llm_solution.serving.memory import DenseMemory

from tiny_llm_course.testkit.inputs import causal, normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.1")


def run(program, seed, *calls, layer=1, dtype=mx.float32, requests=3, length=5):
    draw = normals(seed, dtype)
    query = draw(requests, length, 6, 4)
    key, value = draw(requests, length, 2, 4), draw(requests, length, 2, 4)
    return attention_of(request, DenseMemory, program)(query, key, value, Calls(calls), layer)


known.probe_table(
    # One request, all its tokens at once.
    one_call=lambda program: run(program, 1, ((0, 5),)),
    one_request=lambda program: run(program, 2, ((0, 2),), ((0, 1),), ((0, 2),)),
    one_token=lambda program: run(program, 3, ((0, 1),)),
    two_prompts=lambda program: run(program, 4, ((0, 3), (1, 2))),
    # The second comes while the first is under way, and is read first.
    late_one=lambda program: run(program, 5, ((1, 3),), ((1, 1), (0, 4)), ((0, 1), (2, 2), (1, 1))),
    forgotten=lambda program: run(program, 6, ((0, 3), (1, 2)), ((0, -2), (1, 1)), ((1, 1), (0, 2))),
    first_layer=lambda program: run(program, 7, ((0, 2), (1, 3)), ((0, 1), (1, 1)), layer=0),
    # Three that write: a token of each.
    writing=lambda program: run(program, 8, ((0, 1), (1, 2), (2, 3)), ((0, 1), (1, 1), (2, 1))),
)


known.probe_table(
    mx.float16,
    half=lambda program: run(program, 9, ((0, 3), (1, 2)), ((0, 1), (1, 1)), dtype=mx.float16),
)


@known.sized("a token of each of 8 requests that have 512, 16 heads, D 128")
def sized(program):
    draw, memory = normals(1), DenseMemory(1)
    requests = [request.Request([0] * 513, 1) for _ in range(8)]
    for one in requests:
        memory.begin(one)
        chunk = request.Chunk(one, 0, [0] * 512, 0)
        mx.eval(memory.attend(0, draw(512, 16, 128), draw(512, 8, 128), draw(512, 8, 128), [chunk]))
    chunks = [request.Chunk(one, 512, [0], 1) for one in requests]
    new = draw(8, 16, 128), draw(8, 8, 128), draw(8, 8, 128)

    def attend():
        found = program(memory, 0, *new, chunks)
        for one in requests:
            memory.shorten(one, 512)
        return found

    return attend


known.change(
    "first-layer-s-cache",
    ("[chunk.request][layer]", "[chunk.request][0]"),
    fact="all layers use the request's first cache",
    question="Which layer's keys are in the first of a request's caches?",
)
known.change(
    "one-request-s-cache",
    ("self._caches[chunk.request]", "self._caches[chunks[0].request]"),
    fact="every chunk goes into the caches of the first chunk's request",
    question="Whose keys does the second chunk's last query look at?",
)
known.change(
    "oldest-request-s-cache",
    ("self._caches[chunk.request]", "next(iter(self._caches.values()))"),
    fact="every chunk goes into the caches of the request that was begun first",
    question="Whose keys does the second chunk's last query look at?",
)
known.change(
    "caches-by-place",
    ("attended, at = [], 0", "attended, at, caches = [], 0, list(self._caches.values())"),
    ("self._caches[chunk.request]", "caches[chunks.index(chunk)]"),
    fact="the first chunk gets the caches of the request that was begun first, the second those of the next",
    question="Do the chunks come in the order in which their requests were begun?",
)
known.change(
    "rows-by-position",
    ("slice(at, at := at + len(chunk.tokens))", "slice(chunk.start, chunk.end)"),
    fact="a chunk's rows are taken from where its tokens stand in their own text",
    question="Two requests bring a token each, both at position 7. Which rows of query are theirs?",
)
known.change(
    "first-rows-for-all",
    ("at := at + len(chunk.tokens)", "len(chunk.tokens)"),
    fact="every chunk's rows are counted from the first row",
    question="Where do the rows of the second chunk begin, if the first has three tokens?",
)
known.change(
    "one-row-each",
    ("at := at + len(chunk.tokens))", "at := at + 1)"),
    fact="every chunk has one row",
    question="How many tokens does a request bring that begins?",
)
known.change(
    "no-mask",
    (', mask="causal"', ""),
    fact="there is no mask, so that a token sees those behind it in its own chunk",
    question="A prompt of three tokens comes in one chunk. May the first see the third?",
)
known.change(
    "mask-upper-left",
    ('mask="causal"', "mask=mx.where(mx.arange(keys.shape[2]) <= mx.arange(q.shape[2])[:, None], 0.0, -mx.inf)"),
    fact="the mask starts in the upper left corner, so that the first new token sees the first key alone",
    question="Three tokens are in memory, and one comes. Which of the four may it see?",
)
known.change(
    "new-tokens-alone",
    ("seen = scaled", "keys, values = (k, v) if len(chunk.tokens) > 1 else (keys, values)\nseen = scaled"),
    fact="a chunk of several tokens sees those tokens alone, and nothing that was read before",
    question="The second half of a prompt comes. Which tokens stand before its first?",
)
known.change(
    "mask-for-prompts-alone",
    ('mask="causal"', 'mask="causal" if chunk.start == 0 else None'),
    fact="only chunks that begin a text are masked",
    question="A second part of three tokens comes. May its first token see its last?",
)
known.change(
    "cache-unread",
    ("keys, values = self._caches", "self._caches"),
    ("q, keys, values, mask", "q, k, v, mask"),
    fact="new queries see the new keys and values of their chunk alone",
    question="What do you do with the two arrays that update_and_fetch gives?",
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
    question="How many keys should there be after a prompt of three tokens and two more?",
)
known.change(
    "keys-as-values",
    ("update_and_fetch(k, v)", "update_and_fetch(k, k)"),
    fact="keys go into the cache as values, too",
    question="What is averaged in attention: keys or values?",
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
    fact="prompts that begin together are read as one text, so that a request sees those in the rows before its own",
    question="May the second request's first token see a token of the first request?",
)
known.change(
    "backwards",
    ("mx.concatenate(attended)", "mx.concatenate(attended[::-1])"),
    fact="the chunks' results are joined in reverse order",
    question="In which order do the rows of query stand, and in which order yours?",
)
known.change(
    "joined-by-number",
    (
        "return mx.concatenate(attended)",
        """
        order = sorted(range(len(chunks)), key=lambda i: chunks[i].request.number)
        return mx.concatenate([attended[i] for i in order])
        """,
    ),
    fact="the chunks' results are joined in the order of their requests' numbers",
    question="A plan may read the youngest request first. In which order do the rows of query stand then?",
)
known.change(
    "heads-not-put-back",
    ("attended.append(seen[0].swapaxes(0, 1))", "attended.append(seen[0].reshape(-1, *query.shape[1:]))"),
    fact="the result of a chunk, H x L x D, is called L x H x D without swapping the axes",
    question="What is the difference between swapaxes and reshape, for an array of 2 x 3?",
)
known.change(
    "heads-not-swapped",
    ("(x[own].swapaxes(0, 1)[None] for", "(x[own].reshape(1, x.shape[1], -1, x.shape[2]) for"),
    fact="the rows of a chunk, L x heads x D, are called heads x L x D without swapping the axes",
    question="What is the difference between swapaxes and reshape, for an array of 2 x 3?",
)
known.change(
    "float32-given",
    ("return mx.concatenate(attended)", "return mx.concatenate(attended).astype(mx.float32)"),
    fact="the result is float32, whatever query is",
    question="Which dtype does the docstring promise?",
)


@known.accepted("one-padded-batch")
def one_padded_batch(self, layer, query, key, value, chunks):
    """All requests at once: rows and keys are padded to the longest, and a mask says what is real."""
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
    """One token after the other, as if each were a chunk."""
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
