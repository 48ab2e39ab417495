"""JSON that is still being written."""


def complete_json(prefix: str) -> str:
    """Return the beginning of a JSON text, completed so that it is valid JSON.

    As much of the prefix is kept as can be completed by closing what is open: a string by `"`, an array by `]`, an
    object by `}`. All that follows is dropped: a comma, a key without a value, half a word such as `tru`, the end of a
    number such as `1.`, half an escape, half a surrogate pair or its escape (also if the string goes on, as no text
    contains it), and everything from the first character on that is not allowed there.

    `{"path": "src/ma` becomes `{"path": "src/ma"}`, and so does `{"path": "src/ma", "li`. The last number may be only
    the beginning of the final one: `[1, 23` becomes `[1, 23]`.

    Returns:
        The completed text; "" if nothing can be completed, as before the first character. White space at the end of
        what is kept is kept.

    Raises nothing, whatever the text is.

    Source: RFC 8259.
    """
    raise NotImplementedError("7.2.3 Partial JSON")
