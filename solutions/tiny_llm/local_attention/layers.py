"""Which layers of a model look through a window, as its config.json says."""

from typing import Any

# Model types whose window is off unless use_sliding_window says that it is on.
SWITCHED = ("qwen2", "qwen3", "qwen3_moe")
# Of these the first layers are global, however many max_window_layers says, and the others local.
LATE = ("qwen2", "qwen3")
# Every so many layers one is global, where sliding_window_pattern does not say how many.
PATTERNS = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}


def layer_windows(config: dict[str, Any]) -> list[int | None]:
    """Find out how far back each layer of a model looks.

    A model has no window where sliding_window is null or missing, where use_sliding_window is false, and, in one of
    SWITCHED, where use_sliding_window is missing. All its layers are global then. If it has one, the first of these
    that is there says which layers are local:

    1. layer_types, a word for each layer: "sliding_attention" is local, "full_attention" global;
    2. in one of LATE, max_window_layers, 28 if it is missing: the layers from that number on are local, counted from 0;
    3. sliding_window_pattern, or what PATTERNS says: of so many layers in a row the last is global, the others local.

    If none is there, all layers are local.

    Args:
        config: a config.json, with num_hidden_layers. It is not changed.

    Returns:
        A list of num_hidden_layers windows: sliding_window for a local layer, None for a global one.

    Raises:
        ValueError: sliding_window is neither null nor a whole number of 1 or more; layer_types has another number of
            words than there are layers, or a word that is none of the two; or it asks for sliding_attention where the
            model has no window. The message names the key.

    Source: `transformers`, the configurations of Qwen2, Qwen3, Mistral, Gemma 2 and 3, Cohere 2 and gpt-oss.
    """
    layers, kind, window = config["num_hidden_layers"], config.get("model_type"), config.get("sliding_window")
    if window is not None and (type(window) is not int or window < 1):
        raise ValueError(f"sliding_window is {window!r}, but a whole number of 1 or more is needed, or null")
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
    """Refuse layer_types that do not fit the rest of a config."""
    if len(words) != layers:
        raise ValueError(f"layer_types has {len(words)} words, but there are {layers} layers")
    for word in words:
        if word not in ("sliding_attention", "full_attention"):
            raise ValueError(f'layer_types has {word!r}, but "sliding_attention" or "full_attention" is needed')
    if window is None and "sliding_attention" in words:
        raise ValueError("layer_types has sliding_attention, but sliding_window is off")
