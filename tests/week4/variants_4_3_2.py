"""Known programs of task 4.3.2, which layers are local."""

import mlx.core as mx

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.3.2")
WINDOW = {"num_hidden_layers": 6, "sliding_window": 9}
WORDS = ["full_attention", "sliding_attention", "sliding_attention"] * 2


def of_kind(kind):
    return {"model_type": kind}


def windows(program, config, *changes):
    """Return the layers' windows for each change of a config, -1 for None."""
    found = [program({**config, **change}) for change in changes]
    return tuple(mx.array([-1 if each is None else each for each in layers]) for layers in found)


def refused(program, name, *values):
    """Return whether a config raises for each of several values of a key."""
    return refusals(program, [{**WINDOW, name: value} for value in values])


ON, OFF = {"use_sliding_window": True}, {"use_sliding_window": False}
known.probe_table(
    # on, off, and absent
    qwen=lambda program: windows(program, {**WINDOW, "model_type": "qwen3", "max_window_layers": 4}, ON, OFF, {}),
    qwen_by_default=lambda program: windows(
        program, {**WINDOW, "model_type": "qwen2", "num_hidden_layers": 31}, ON, {**ON, "max_window_layers": 0}
    ),
    mixture=lambda program: windows(program, {**WINDOW, "model_type": "qwen3_moe", "max_window_layers": 4}, ON, {}),
    patterns=lambda program: windows(
        program, {**WINDOW, "num_hidden_layers": 13}, *map(of_kind, ("gemma2", "gemma3_text", "cohere2", "gpt_oss"))
    ),
    pattern=lambda program: (
        windows(program, {**WINDOW, "sliding_window_pattern": 3}, of_kind("gemma3_text"))
        + windows(program, {**WINDOW, "sliding_window_pattern": 2}, {})
    ),
    everywhere=lambda program: windows(program, WINDOW, of_kind("mistral")),
    # no window, null, or off
    nowhere=lambda program: (
        windows(program, {"num_hidden_layers": 6, **of_kind("mistral")}, {})
        + windows(program, {**WINDOW, **of_kind("mistral")}, {"sliding_window": None}, OFF)
    ),
    words=lambda program: windows(
        program, {**WINDOW, "layer_types": WORDS, **ON}, *map(of_kind, ("mistral", "gemma3_text", "qwen3"))
    ),
    refused_windows=lambda program: refused(program, "sliding_window", 0, -2, "9", 2.5, True),
    refused_window_with_words=lambda program: refusals(
        program, [{**WINDOW, "sliding_window": -2, "layer_types": ["full_attention"] * 6}]
    ),
    refused_counts=lambda program: refused(program, "layer_types", *(["sliding_attention"] * n for n in (0, 3, 5, 7))),
    refused_words=lambda program: refused(program, "layer_types", ["full_attention"] * 5 + ["chunked_attention"]),
    refused_contradictions=lambda program: refusals(
        program,
        [
            {**WINDOW, "layer_types": ["sliding_attention", *["full_attention"] * 5], **off}
            for off in ({"sliding_window": None}, OFF)
        ],
    ),
)
known.not_timed("a loop over a few dozen layers")

SWITCH = 'if not config.get("use_sliding_window", kind not in SWITCHED):'
LATE = 'window if i >= config.get("max_window_layers", 28) else None'
ORDER = "None if pattern and (i + 1) % pattern == 0 else window"
PATTERN = 'config.get("sliding_window_pattern", PATTERNS.get(kind or ""))'
WORD = 'window if word == "sliding_attention" else None'
for name, old, new, fact, question in (
    ("switch-ignored", SWITCH, "if False:",
     "sliding_window alone decides, even if use_sliding_window is false",
     "A config says sliding_window 4096 and use_sliding_window false. Which of the two decides?"),
    ("on-unless-it-says-off", "kind not in SWITCHED", "True",
     "Qwen models without use_sliding_window have a window",
     "What does SWITCHED say about the models in it?"),
    ("moe-on-unless-it-says-off", "kind not in SWITCHED", "kind not in LATE",
     "a qwen3_moe model without use_sliding_window has a window",
     "Which model types are in SWITCHED?"),
    ("off-unless-it-says-on", "kind not in SWITCHED", "False",
     "no model without use_sliding_window has a window",
     "Mistral's config has no such switch. Has the model no window?"),
    ("first-layers-local", LATE, 'window if i < config.get("max_window_layers", 28) else None',
     "max_window_layers is the number of local layers",
     "A Qwen2 config has 28 layers, and max_window_layers 28. Which of its layers should be local?"),
    ("one-layer-late", LATE, 'window if i > config.get("max_window_layers", 28) else None',
     "the local layers start one too late",
     "With max_window_layers 0, which layer is the first local one?"),
    ("nothing-by-default", 'config.get("max_window_layers", 28)', 'config.get("max_window_layers", 0)',
     "all layers are local if max_window_layers is missing",
     "What is max_window_layers if a config does not contain it?"),
    ("zero-is-missing", 'config.get("max_window_layers", 28)', '(config.get("max_window_layers") or 28)',
     "a max_window_layers of 0 is treated as missing",
     "What is `0 or 28` in Python?"),
    ("moe-like-the-others", "if kind in LATE:", "if kind in SWITCHED:",
     "qwen3_moe also uses max_window_layers",
     "Which models are in LATE, and which in SWITCHED?"),
    ("max-window-layers-ignored", "if kind in LATE:", "if False:",
     "max_window_layers is ignored, and all layers are local",
     "A Qwen config has a window, six layers and max_window_layers 4. How many layers are global?"),
    ("pattern-reversed", ORDER, "window if not pattern or (i + 1) % pattern == 0 else None",
     "local and global layers of a pattern are swapped",
     "Gemma 3 has five layers of one kind to one of the other. Which kind is cheap?"),
    ("pattern-from-zero", "(i + 1) % pattern == 0", "i % pattern == 0",
     "a pattern's first layer is global instead of its last",
     "Of six layers, 0 to 5, which is the global one?"),
    ("no-patterns-by-name", PATTERN, 'config.get("sliding_window_pattern")',
     "only a pattern in the config is used, not the model's default",
     "What is PATTERNS for?"),
    ("patterns-by-name-alone", PATTERN, 'PATTERNS.get(kind or "")',
     "the config's own sliding_window_pattern is ignored",
     "What if a config has a pattern other than the model's default?"),
    ("patterns-by-name-first", PATTERN, 'PATTERNS.get(kind or "", config.get("sliding_window_pattern"))',
     "the model's default pattern takes precedence over the config's own sliding_window_pattern",
     "A Gemma 3 config has sliding_window_pattern 3. Which of the two patterns was it trained with?"),
    ("nowhere-by-default", ORDER, "window if pattern and (i + 1) % pattern else None",
     "without a pattern no layer is local",
     "Mistral's config has sliding_window 4096 and nothing more. Which of its layers are local?"),
    ("words-ignored", f"return [{WORD} for word in words]", "pass",
     "layer_types is validated but not used",
     "A config lists a type for every layer. What does your list contain?"),
    ("words-reversed", WORD, 'window if word == "full_attention" else None',
     "the two layer types are swapped",
     "Which of the two words means a window?"),
    ("any-window", "if window is not None and (type(window) is not int or window < 1):", "if False:",
     "any value of sliding_window is accepted",
     "What would a layer do with a window of 0, or of '4096'?"),
    ("true-is-a-window", "type(window) is not int", "not isinstance(window, int)",
     "a sliding_window of True is accepted, because a bool is an int in Python",
     "What is isinstance(True, int)?"),
    ("any-number-of-words", "if len(words) != layers:", "if False:",
     "layer_types may have any length",
     "Six layers, five types: what does the sixth layer do?"),
    ("no-words-is-missing", "if words is not None:", "if words:",
     "an empty layer_types is treated as missing",
     "Six layers, and layer_types is an empty list. How many strings should it have?"),
    ("any-word", 'if word not in ("sliding_attention", "full_attention"):', "if False:",
     "an unknown layer type is treated as full attention",
     "A config has the type chunked_attention. Was its model trained with full attention?"),
    ("contradiction-taken", 'if window is None and "sliding_attention" in words:', "if False:",
     "a sliding_attention layer is accepted without a sliding_window",
     "layer_types contains sliding_attention, and sliding_window is null. How far should the layer see?"),
):  # fmt: skip
    known.change(name, (old, new), fact=fact, question=question)
VALID = "if window is not None and (type(window) is not int or window < 1):"
known.change(
    "any-window-with-words",
    (VALID, VALID.replace("window is not None", 'window is not None and config.get("layer_types") is None')),
    fact="sliding_window is validated only if the config has no layer_types",
    question="A config has layer_types and a sliding_window of -2. Which of your lines sees the -2?",
)


@known.accepted("layer by layer")
def layer_by_layer(config):
    kind, window, words = config.get("model_type"), config.get("sliding_window"), config.get("layer_types")
    if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window <= 0):
        raise ValueError(f"sliding_window {window}")
    qwen = kind in ("qwen2", "qwen3", "qwen3_moe")
    on = config.get("use_sliding_window", not qwen)
    window = window if on else None
    if words is not None and len(words) != config["num_hidden_layers"]:
        raise ValueError("layer_types is of another length")
    found = []
    for layer in range(config["num_hidden_layers"]):
        if words is not None:
            if words[layer] == "sliding_attention":
                if window is None:
                    raise ValueError("layer_types needs a window, and there is none")
                found.append(window)
            elif words[layer] == "full_attention":
                found.append(None)
            else:
                raise ValueError(f"layer_types has {words[layer]}")
        elif kind in ("qwen2", "qwen3"):
            found.append(None if layer < config.get("max_window_layers", 28) else window)
        else:
            usual = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}.get(kind)
            every = config.get("sliding_window_pattern", usual)
            found.append(None if every and layer % every == every - 1 else window)
    return found
