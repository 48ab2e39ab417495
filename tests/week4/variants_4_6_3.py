"""Known programs of task 4.6.3, a model with shared layers."""

import dataclasses

import mlx.core as mx
from tests.week1.reference_model import QWEN3, QWEN25, random_model, random_tokens
from tests.week2.doubling import Counting, Doubling, halved
from tests.week2.in_parts import Parts, in_parts
from tests.week4.formulas_day6 import stored_only
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.qwen3_cached.cache import KVCache
from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel
from tiny_llm_solution.qwen3_cached.parts import DENSE
from tiny_llm_solution.weight_sharing.model import SharedLayersModel
from tiny_llm_solution.weight_sharing.owners import weight_owner

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.6.3")


def whole_of(base, seed, layers, distinct, dtype=mx.float32, **changes):
    return stored_only(random_model(base, seed, dtype, num_hidden_layers=layers, **changes), distinct)


def run(program, base, seed, layers, distinct, order, *parts, own_caches=False, **options):
    """Return the logits after every position, and how many tokens each cache holds then."""
    model = made(program, whole_of(base, seed, layers, distinct, **options), distinct, order)
    caches = [KVCache() for _ in range(layers)] if own_caches else model.new_caches()

    def rewind(count):
        for each in {id(cache): cache for cache in caches}.values():
            each.rewind(count)

    tokens = random_tokens(seed, 2, sum(n for n in parts if n > 0))
    found = in_parts(lambda part: model(part, caches, all_positions=True), rewind, tokens, Parts(parts))
    return found, mx.array([cache.offset for cache in caches])


def made(program, whole, *settings):
    return program(ModelConfig.from_dict(whole.config), whole.weights, *settings)


def last_position(program):
    model = made(program, whole_of(QWEN3, 40, 4, 2), 2, "cycle")
    return model(random_tokens(40, 2, 5)), model(random_tokens(41, 2, 5))


def by_other_parts(program):
    model = made(program, halved(whole_of(QWEN25, 42, 4, 2)), 2, "sequence", Doubling())
    return model(random_tokens(42, 1, 3), all_positions=True)


def matrices(program):
    """Return which matrices are built: 0 each once, 1 those of the layers more often, 2 only others, -1 too few."""
    parts = Counting()
    made(program, whole_of(QWEN3, 43, 6, 2), 2, "cycle", parts)
    often = len(parts.made) > 15
    return mx.array(-1 if len(parts.made) < 15 else often * (1 if parts.made.count("mlp.up_proj") > 2 else 2))


def numbers_of_caches(program):
    model = made(program, whole_of(QWEN3, 44, 4, 2), 2, "cycle")
    refused = refusals(lambda count: model(random_tokens(44, 1, 2), [KVCache() for _ in range(count)]), (0, 2, 3, 5))
    return mx.array(len(model.new_caches())), refused


known.probe_table(
    sequence=lambda program: run(program, QWEN3, 31, 4, 2, "sequence", 3, 1, 2),
    cycle=lambda program: run(program, QWEN3, 32, 6, 3, "cycle", 2, 2),
    reversed=lambda program: run(program, QWEN25, 33, 6, 3, "cycle_reversed", 2, 1),
    caches_of_mine=lambda program: run(program, QWEN3, 34, 4, 2, "cycle", 2, 2, own_caches=True),
    one_set=lambda program: run(program, QWEN3, 35, 3, 1, "cycle", 2, 1),
    nothing=lambda program: run(program, QWEN3, 36, 3, 3, "sequence", 2, 1),
    tied=lambda program: run(program, QWEN3, 37, 4, 2, "cycle", 2, 2, tie_word_embeddings=True),
    rewound=lambda program: run(program, QWEN3, 39, 4, 2, "cycle", 2, -2, 2),
    last_position=last_position,
    by_other_parts=by_other_parts,
    matrices=matrices,
    numbers_of_caches=numbers_of_caches,
)
known.probe_table(mx.float16, half=lambda program: run(program, QWEN3, 38, 4, 2, "sequence", 2, 2, dtype=mx.float16))


@known.sized("one token after 128, 12 layers of 3 sets, E 256, float32")
def sized(program):
    measures = {"hidden_size": 256, "intermediate_size": 576, "head_dim": 32, "max_position_embeddings": 256}
    model = made(program, whole_of(QWEN3, 1, 12, 3, **measures), 3, "sequence")
    caches = model.new_caches()
    mx.eval(model(random_tokens(1, 1, 128), caches))

    def step():
        found = model(mx.array([[5]]), caches)
        for cache in caches:
            cache.rewind(1)
        return found

    return step


known.change(
    "caches-shared-as-well",
    (
        "[KVCache() for _ in self.layers]",
        "[caches[id(layer)] for caches in [{id(each): KVCache() for each in self.layers}] for layer in self.layers]",
    ),
    fact="layers that share weights also share a cache",
    question="What does layer 0 write into the cache, and what would layer 1 then find for the same token?",
)
known.change(
    "one-cache-for-all",
    ("[KVCache() for _ in self.layers]", "[KVCache()] * len(self.layers)"),
    fact="new_caches returns one cache several times, so all layers share it",
    question="How many objects does [KVCache()] * 3 create?",
)
known.change(
    "cache-of-the-owner",
    ("layer(x, cache)", "layer(x, caches[self.layers.index(layer)])"),
    fact="a layer uses the cache of the first layer with the same weights",
    question="Whose keys are in the cache that your second layer uses?",
)
known.change(
    "cache-indexed-by-owner",
    ("self.layers = [", "self.owners = owners\nself.layers = ["),
    (
        "zip(self.layers, caches, strict=True)",
        "zip(self.layers, [caches[owner] for owner in self.owners], strict=True)",
    ),
    fact="caches are indexed by the stored layer, like the weights, so some serve several layers and others none",
    question="Six layers, three stored: which cache does the fourth layer use?",
)
known.change(
    "stored-layers-and-caches",
    ("self.layers = [", "self.distinct, self.owners = distinct, owners\nself.layers = ["),
    ("[KVCache() for _ in self.layers]", "[KVCache() for _ in range(self.distinct)]"),
    ("if len(caches) != len(self.layers):", "if len(caches) != self.distinct:"),
    ("for {len(self.layers)} layers", "for {self.distinct} layers"),
    (
        "zip(self.layers, caches, strict=True)",
        "zip(self.layers, [caches[owner] for owner in self.owners], strict=True)",
    ),
    fact="the model has and expects one cache per stored layer, and all uses of the layer share it",
    question="What does layer 0 write into the cache, and what would the second use find for the same token?",
)
known.change(
    "a-cache-for-each-stored-layer",
    ("[KVCache() for _ in self.layers]", "[KVCache() for _ in {id(layer) for layer in self.layers}]"),
    fact="new_caches returns one cache per stored layer",
    question="How many layers does a token pass through?",
)
known.change(
    "each-once",
    ("[stored.layers[owner] for owner in owners]", "stored.layers"),
    fact="each stored layer runs once",
    question="Six layers, three stored: how many layers does a token pass through?",
)
# With each-once, new_caches returns one cache per stored layer, whatever else the program does with its caches.
known.together("cache-indexed-by-owner", "each-once", makes="a-cache-for-each-stored-layer")
known.together("stored-layers-and-caches", "each-once", makes="a-cache-for-each-stored-layer")
known.change(
    "order-ignored",
    ("weight_owner(number, layers, distinct, order)", 'weight_owner(number, layers, distinct, "cycle")'),
    fact='the layers run in the order "cycle", whatever order is given',
    question="Is your constructor's order passed to weight_owner?",
)
known.change(
    "always-in-sequence",
    ("weight_owner(number, layers, distinct, order)", 'weight_owner(number, layers, distinct, "sequence")'),
    fact='the layers run in the order "sequence", whatever order is given',
    question="Is your constructor's order passed to weight_owner?",
)
known.change(
    "first-weights-for-all",
    ("stored.layers[owner] for owner in owners", "stored.layers[0] for owner in owners"),
    fact="every layer uses the first one's weights",
    question="How many sets of weights are in the file, and how many does your model use?",
)
known.change(
    "as-many-as-the-config-says",
    ("dataclasses.replace(config, num_hidden_layers=distinct)", "config"),
    fact="as many layers are built as the config says, although only `distinct` of them are stored",
    question="Six layers, three stored: for which layers does the file have weights?",
)
known.change(
    "made-for-each-layer",
    (
        "stored = Qwen3CachedModel(dataclasses.replace(config, num_hidden_layers=distinct), weights, parts)",
        """
        prefix = "model.layers."
        copies = {name: w for name, w in weights.items() if not name.startswith(prefix)}
        for number, owner in enumerate(owners):
            own = [name for name in weights if name.startswith(f"{prefix}{owner}.")]
            copies |= {name.replace(f"{prefix}{owner}.", f"{prefix}{number}."): weights[name] for name in own}
        stored = Qwen3CachedModel(config, copies, parts)
        """,
    ),
    ("[stored.layers[owner] for owner in owners]", "stored.layers"),
    fact="the matrices are built again for each layer that uses them",
    question="If building a matrix means packing it into 4 bits: how many packed copies does your model hold?",
)
known.change(
    "parts-left-alone",
    ("weights, parts)", "weights)"),
    fact="the projections are built straight from the checkpoint, ignoring the layer factory that is passed in",
    question="What is the constructor's last argument for?",
)
known.change(
    "norm-after-every-layer",
    ("x = layer(x, cache)", "x = self.norm(layer(x, cache))"),
    fact="the final norm runs after every layer, and once more at the end",
    question="How often does the final norm apply to a token?",
)
known.change(
    "caches-kept-in-the-model",
    (
        "caches = self.new_caches() if caches is None else caches",
        """
        if caches is None:
            caches = self.__dict__.setdefault("own", self.new_caches())
        """,
    ),
    fact="calls without caches share caches of the model, which keep the tokens of earlier calls",
    question="Two calls without caches get different sequences. What does the second attend to?",
)
known.change(
    "empty-list-as-none",
    ("caches = self.new_caches() if caches is None else caches", "caches = caches or self.new_caches()"),
    fact="an empty list of caches is treated as no caches given",
    question="What does `caches or default` give for []?",
)
known.change(
    "kept-or-empty",
    (
        "caches = self.new_caches() if caches is None else caches",
        'caches = caches or self.__dict__.setdefault("own", self.new_caches())',
    ),
    fact="calls without caches, or with an empty list, share caches of the model, which keep earlier tokens",
    question="Two calls without caches get different sequences. What does the second attend to?",
)
known.together("caches-kept-in-the-model", "empty-list-as-none", makes="kept-or-empty")
known.change(
    "caches-left-empty",
    ("layer(x, cache)", "layer(x, KVCache())"),
    fact="every call creates its own caches, and the given ones stay empty",
    question="After a call with five tokens, what is the offset of the caches that you were given?",
)
known.change(
    "number-not-compared",
    ("if len(caches) != len(self.layers):", "if False:"),
    ("strict=True", "strict=False"),
    fact="only as many layers run as there are caches, and surplus caches are ignored",
    question="Where does zip stop if one list is shorter than the other?",
)
known.change(
    "every-position-always",
    ("x if all_positions else x[:, -1:]", "x"),
    fact="logits are always computed for every position",
    question="How many rows of logits does the next token need?",
)
known.change(
    "last-position-without-its-axis",
    ("x if all_positions else x[:, -1:]", "x if all_positions else x[:, -1]"),
    fact="the last position's logits have lost the axis of positions: they are N x V",
    question="What is the difference between x[:, -1] and x[:, -1:]?",
)
known.change(
    "last-position-always",
    ("x if all_positions else x[:, -1:]", "x[:, -1:]"),
    fact="logits are computed only for the last position, even with all_positions=True",
    question="What does all_positions=True mean?",
)
known.change(
    "always-tied",
    ("return self.head(x)", "return self.embedding.as_linear(x)"),
    fact="the output head is always the embedding table, even if the config does not tie them",
    question="Sharing layers is one choice, tying the head another. Which of them is tie_word_embeddings?",
)


@known.accepted("week-2-s-model-with-other-layers")
class Inherited(Qwen3CachedModel):
    def __init__(self, config, weights, distinct, order, parts=DENSE):
        layers = config.num_hidden_layers
        owners = [weight_owner(number, layers, distinct, order) for number in range(layers)]
        super().__init__(dataclasses.replace(config, num_hidden_layers=distinct), weights, parts)
        self.layers = [self.layers[owner] for owner in owners]


@known.accepted("looked-up-while-running")
class LookedUp(SharedLayersModel):
    def __init__(self, config, weights, distinct, order, parts=DENSE):
        super().__init__(dataclasses.replace(config, num_hidden_layers=distinct), weights, distinct, order, parts)
        layers = config.num_hidden_layers
        self.owners = [weight_owner(number, layers, distinct, order) for number in range(layers)]

    def new_caches(self):
        return [KVCache() for _ in self.owners]

    def __call__(self, tokens, caches=None, all_positions=False):
        caches = self.new_caches() if caches is None else caches
        if len(caches) != len(self.owners):
            raise ValueError(f"{len(caches)} caches, {len(self.owners)} layers")
        x = self.embedding(tokens)
        for owner, cache in zip(self.owners, caches, strict=True):
            x = self.layers[owner](x, cache)
        x = self.norm(x)
        return self.head(x if all_positions else x[:, -1:])
