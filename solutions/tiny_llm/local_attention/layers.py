"""Which layers of a model use sliding-window attention, according to its config.json."""

from typing import Any

# Model types whose window is off unless use_sliding_window says that it is on.
SWITCHED = ("qwen2", "qwen3", "qwen3_moe")
# Model types whose first max_window_layers layers are global and the others local.
LATE = ("qwen2", "qwen3")
# The last of every so many layers is global, unless sliding_window_pattern gives another number.
PATTERNS = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}


def layer_windows(config: dict[str, Any]) -> list[int | None]:
    """Return each layer's window.

    A model has no window, and all its layers are global, if sliding_window is null or missing, if use_sliding_window is
    false or, for a type in SWITCHED, missing. If it has one, the first of these that applies decides which layers are
    local:

    1. layer_types, one string per layer, unless null: "sliding_attention" is local, "full_attention" global;
    2. for a type in LATE, max_window_layers, 28 if missing: the layers from that number on, counted from 0, are local;
    3. sliding_window_pattern, or, if that key is missing, the type's number in PATTERNS: the last of every so many
       layers is global, the others are local.

    If none applies, all layers are local.

    Args:
        config: a config.json, with num_hidden_layers. It is not changed.

    Returns:
        A list of num_hidden_layers windows: sliding_window for a local layer, None for a global one.

    Raises:
        ValueError: sliding_window is neither null nor an integer of at least 1; layer_types does not have one string
            per layer, or has an unknown one; or it has sliding_attention in a model without a window. The message names
            the key.

    Source: `transformers`, the configurations of Qwen2, Qwen3, Mistral, Gemma 2 and 3, Cohere 2 and gpt-oss.
    """
    layers, kind, window = config["num_hidden_layers"], config.get("model_type"), config.get("sliding_window")
    if window is not None and (type(window) is not int or window < 1):
        raise ValueError(f"sliding_window is {window!r}, but an integer of at least 1, or null, is needed")
    if not config.get("use_sliding_window", kind not in SWITCHED):
        window = None
    words = config.get("layer_types")
    if words is not None:
        _check_words(words, layers, window)
        return [window if word == "sliding_attention" else None for word in words]
    if window is None:
        return [None] * layers
    if kind in LATE:
        return [window if i >= config.get("max_window_layers", 28) else None for i in range(layers)]
    pattern = config.get("sliding_window_pattern", PATTERNS.get(kind or ""))
    return [None if pattern and (i + 1) % pattern == 0 else window for i in range(layers)]


def _check_words(words: list[str], layers: int, window: int | None) -> None:
    """Raise a ValueError if layer_types do not fit the rest of a config."""
    if len(words) != layers:
        raise ValueError(f"layer_types has {len(words)} words, but there are {layers} layers")
    for word in words:
        if word not in ("sliding_attention", "full_attention"):
            raise ValueError(f'layer_types has {word!r}, but "sliding_attention" or "full_attention" is needed')
    if window is None and "sliding_attention" in words:
        raise ValueError("layer_types has sliding_attention, but sliding_window is off")
