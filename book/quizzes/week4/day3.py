"""The quiz of week 4, day 3."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "4.3.1",
    "A sequence has ten tokens, a window of 3 and one sink. How many keys does the last query see?",
    why="It sees its own key, the two keys before it, and the sink, which makes 4.",
    mistakes={
        "one-too-far": "The window includes the query's own key: with a window of 1, a query sees only that key.",
        "no-sinks": "The first key stays visible at any distance.",
        "no-window": "Seven of the ten keys are outside the window, and only the sink among them is visible.",
    },
)
def keys_seen(mask: Any) -> str:
    return str(int(mx.sum(mask(1, 10, 3, 1, mx.float32) == 0)))


@quiz.question(
    "4.3.2",
    "A Qwen3 config has six layers, sliding_window 4096, use_sliding_window true and max_window_layers 4. Which "
    "layers use a window?",
    why="The first four layers are global, and the layers from index 4 on are local.",
    mistakes={
        "first-layers-local": "The name `max_window_layers` suggests this, but its value is the number of global "
        "layers, and these are the first layers.",
        "one-layer-late": "Layers are numbered from 0, and the first local layer is number 4.",
        "max-window-layers-ignored": "Its value, 4, says that the first four layers are global.",
    },
)
def local_layers(windows: Any) -> str:
    config = {"model_type": "qwen3", "num_hidden_layers": 6, "sliding_window": 4096}
    found = windows({**config, "use_sliding_window": True, "max_window_layers": 4})
    return ", ".join(str(i) for i, each in enumerate(found) if each is not None)


@quiz.question(
    "4.3.4",
    "A rolling cache has a window of 3 and one sink. Keys 1 to 5 were added one at a time, and now 6 and 7 are "
    "added together. Which keys does the cache return?",
    why="The cache returns the sink, 1, the keys 4 and 5, which 6 still sees, and the two new keys. For 7, the mask "
    "will hide 4.",
    mistakes={
        "only-the-new": "6 sees three keys besides the sink: its own key and two earlier keys.",
        "prompt-before-the-window": "These are enough for 7, but 6 is a query too, and it sees 4.",
        "as-they-lie": "These are the right keys, but a mask's columns are in sequence order.",
        "no-sinks": "The first key is a sink, which is kept forever.",
    },
)
def what_comes_back(cache: Any) -> str:
    kept = cache(3, 1)
    for keys in ([1], [2], [3], [4], [5], [6, 7]):
        new = mx.array(keys, mx.float32).reshape(1, 1, -1, 1)
        found, _ = kept.update_and_fetch(new, new)
    return numbers(found)


@quiz.measured(
    "In our own run, a sequence becomes eight times as long, but a step with a window takes the same time and memory. "
    "Why?",
    right="Each new token overwrites the oldest one of the window, so the cache never grows.",
    why="A step reads the window and the sinks, whose number does not depend on the sequence.",
    mistakes={
        "The mask hides the older keys.": "A mask saves neither memory nor time: hidden keys would still be cached and "
        "scored.",
        "The older keys are averaged into the sinks.": "The sinks are the first few tokens, unchanged. Older keys are "
        "overwritten.",
        "A step always reads the first 512 tokens.": "The window moves with the sequence. Only the sinks stay.",
    },
)
def stays(record: Record, cause: str) -> str:
    short, long = (record[tokens] for tokens in ("1024", "8192"))
    time, memory = (float(long[name]) / float(short[name]) for name in ("window: ms", "window: MiB"))
    return cause if 0.9 < time < 1.1 and memory == 1 else ""
