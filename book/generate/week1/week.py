"""The story of the front page, token by token, with the model's likeliest tokens at each position.

The embedded model generated it in float64 at temperature 0.7. One forward pass over the story returns the probabilities
of all its tokens, so nothing is sampled here.
"""

from html import escape

import numpy as np
from book.generate.week1.heads import model, tokens_of
from tests.week1.formulas import softmax64
from tests.week1.reference_model import model64

from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL

PROMPT = "Once upon a time"
STORY = (
    ", there was a little girl named Lily. She loved to play outside in the park with her friends. One day, while "
    "playing, she found a book"
)
BEST = 4  # likeliest tokens for each position


def generated_parts() -> Parts:
    """Return the story."""
    return {"story": story()}


def story() -> str:
    """Return each token of the story with its probability and the likeliest tokens at its position."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    prompt, ids = tokens_of(PROMPT), tokens_of(PROMPT + STORY)
    shares = softmax64(model64(np.array([ids]), model())[0], -1)
    steps = []
    for place in range(len(prompt), len(ids)):
        before = shares[place - 1]
        best = [int(token) for token in np.argsort(-before, kind="stable")[:BEST]]
        said = [[str(tokenizer.decode([token])), round(float(before[token]), 3)] for token in (ids[place], *best)]
        steps.append({"said": said[0], "best": said[1:]})
    told = escape(tokenizer.decode(ids[len(prompt) :]))
    still = f'<figure class="drawn"><p><b>{PROMPT}</b>{told} ...</p></figure>'
    return element("story-teller", {"prompt": PROMPT, "steps": steps}, still)
