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
    raise NotImplementedError("4.3.2 Which layers are local")
