"""Week 7's token masks against llguidance, step by step, on random schemas. For maintainers.

The committed record is checked, too; without llguidance (`pip install llguidance`), the graded tests use that record.
"""

import json
import random

import numpy as np
import pytest
from tests.week7 import record_masks
from tests.week7.random_schemas import draw_schema

from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution

llguidance = pytest.importorskip("llguidance", reason="not run here: needs llguidance (pip install llguidance)")

load_solution()
from tiny_llm_solution.constrained.grammar import GrammarCompiler  # noqa: E402
from tiny_llm_solution.constrained.trie import TokenTrie, unpack  # noqa: E402
from tiny_llm_solution.tokenizer import ByteLevelBPE  # noqa: E402

pytestmark = pytest.mark.maintainers
SIZE, END = record_masks.SIZE, record_masks.END


def test_the_record_is_current():
    with np.load(record_masks.RECORD) as kept:
        found = record_masks.record()
        assert kept.keys() == found.keys()
        for name, array in found.items():
            assert np.array_equal(kept[name], array), name


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_same_masks_step_by_step(first):
    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    trie = TokenTrie(tokenizer.token_bytes, SIZE, {*tokenizer.special_tokens.values()})
    compiler, theirs = GrammarCompiler(trie, [END]), record_masks.tokenizers()["tokens"]
    for seed in range(first, first + 50):
        schema = draw_schema(random.Random(seed))
        grammar = compiler.compile(schema)
        state, text = grammar.start, b""
        for token, mask in record_masks.walk(theirs, schema, SIZE, END, seed):
            mine = unpack(grammar.mask(state), SIZE)
            expected = unpack(mask.copy(), SIZE)
            assert np.array_equal(mine, expected), (json.dumps(schema), text, np.flatnonzero(mine != expected))
            if token < 0:
                break
            state, text = grammar.advance(state, token), text + tokenizer.token_bytes[token]


def test_answers_to_random_schemas():
    """All of 30 answers are valid; `python tests/course/random_answers.py 1000` tries more."""
    pytest.importorskip("hypothesis_jsonschema", reason="not run here: needs hypothesis-jsonschema")
    from tests.course import random_answers

    (result,) = random_answers.run(30)
    assert (result.valid, result.invalid, result.cut) == (30, [], [])
    assert result.steps > 100
    # A number of at most 0 may be 0.0, and a constant of -1e-9 may be written so: llguidance takes 0 and -0.000000001.
    assert len(result.different) <= 3
