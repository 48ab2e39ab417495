"""Week 5's tokenizer training against Hugging Face's `tokenizers`, merge for merge and id for id. For maintainers.

Stories are looked for in the folder `tinystories` below the one that the environment variable TINY_LLM_DATA names, by
default `../shared/data` beside the checkout.
"""

import itertools
import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.week5 import record_merges
from tests.week5.merging import QWEN, WORD_COUNTS
from tests.week5.training_texts import RECORDED, recorded, texts

from tiny_llm_course.paths import EMBEDDED_MODEL, ROOT
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.properties import ALWAYS_THE_SAME
from tiny_llm_course.testkit.texts import awkward_texts

tokenizers = pytest.importorskip("tokenizers", reason="not run here: needs tokenizers (pdm run dev-setup)")
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers  # noqa: E402

load_solution()
from tiny_llm_solution.bpe.files import save_tokenizer  # noqa: E402
from tiny_llm_solution.bpe.naive import train_naively  # noqa: E402
from tiny_llm_solution.bpe.train import train_tokenizer  # noqa: E402
from tiny_llm_solution.bpe.trainer import train_bpe  # noqa: E402
from tiny_llm_solution.bpe.words import count_words  # noqa: E402
from tiny_llm_solution.tokenizer import ByteLevelBPE  # noqa: E402

pytestmark = pytest.mark.maintainers
thorough = settings(ALWAYS_THE_SAME, max_examples=150)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def as_qwen():
    """Qwen's way to split a text."""
    split = pre_tokenizers.Split(Regex(QWEN), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def test_the_recorded_merges_are_current():
    assert json.loads(RECORDED.read_text(encoding="utf-8")) == record_merges.rows()


@pytest.mark.parametrize("name", list(texts()))
def test_with_qwens_words(name):
    text, num = texts()[name]
    words = count_words([text], QWEN, normalization="NFC")
    assert train_bpe(words, num) == record_merges.learned(text, num, as_qwen(), normalizers.NFC())


def test_stories():
    folder = Path(os.environ.get("TINY_LLM_DATA") or ROOT.parent / "shared" / "data") / "tinystories"
    if not folder.is_dir():
        pytest.skip("not run here: there is no training text (TINY_LLM_DATA names the folder that holds it)")
    text = "".join(file.read_text(encoding="utf-8", errors="ignore") for file in sorted(folder.iterdir()))[:2_000_000]
    assert train_bpe(count_words([text]), 1792) == record_merges.learned(text, 1792)


@thorough
@given(counts=WORD_COUNTS, num=st.integers(0, 40))
def test_small_alphabets(counts, num):
    """Words that `tokenizers` gets as they are, each as often as its count."""
    text = " ".join(itertools.chain.from_iterable([word] * count for word, count in counts.items()))
    theirs = record_merges.learned(text, num, pre_tokenizers.WhitespaceSplit())
    assert train_naively(counts, num) == train_bpe(counts, num) == theirs


@pytest.mark.parametrize("seed", range(8))
def test_random_words(seed):
    """Longer words, in alphabets of one to eight letters, until no pair is left."""
    draw = random.Random(seed)
    counts = {
        "".join(draw.choices("abcdefgh"[: seed + 1], k=draw.randint(1, 30))): draw.randint(1, 3) for _ in range(40)
    }
    text = " ".join(itertools.chain.from_iterable([word] * count for word, count in counts.items()))
    assert train_bpe(counts, 2000) == record_merges.learned(text, 2000, pre_tokenizers.WhitespaceSplit())


def test_no_token_is_learned_twice():
    """A token always comes from the same pair, as the chapter says."""
    for merges in recorded().values():
        tokens = ["".join(pair) for pair in merges]
        assert len(set(tokens)) == len(tokens)


@pytest.mark.parametrize("form", [None, "NFC", "NFKC"])
@pytest.mark.parametrize("name", list(recorded()))
def test_a_saved_tokenizer_is_loaded_by_both(name, form, tmp_path):
    """The same ids for awkward texts, special tokens included, and the same text back."""
    file = tmp_path / "tokenizer.json"
    save_tokenizer(file, recorded()[name], SPECIAL, QWEN, form)
    theirs, ours = Tokenizer.from_file(str(file)), ByteLevelBPE.from_file(file)
    assert theirs.get_vocab_size() == 256 + len(recorded()[name]) + 3 == len(ours.token_bytes)
    for text in [*awkward_texts(), "a<|im_start|> b<|im_end|><|endoftext|>e\u0301"]:
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text) == ids
        assert theirs.decode(ids, skip_special_tokens=False) == ours.decode(ids)
        assert theirs.decode(ids) == ours.decode(ids, skip_special_tokens=True)


def test_the_embedded_models_file_is_made_again(tmp_path):
    """From its merges alone: the same vocabulary, the same special tokens, the same words."""
    file, there = (
        tmp_path / "tokenizer.json",
        json.loads((EMBEDDED_MODEL / "tokenizer.json").read_text(encoding="utf-8")),
    )
    save_tokenizer(file, [tuple(pair) for pair in there["model"]["merges"]], SPECIAL, QWEN, "NFC")
    here = json.loads(file.read_text(encoding="utf-8"))
    for part in ("vocab", "merges"):
        assert here["model"][part] == there["model"][part]
    assert here["added_tokens"] == there["added_tokens"]
    assert here["pre_tokenizer"]["pretokenizers"][0] == there["pre_tokenizer"]["pretokenizers"][0]


def test_all_steps_at_once(tmp_path):
    text = texts()["a page"][0]
    trained = train_tokenizer(tmp_path / "tokenizer.json", [text], 400, SPECIAL, QWEN, "NFC")
    assert sorted(trained.token_bytes) == list(range(400))
    assert trained.decode(trained.encode(text + SPECIAL[0])) == text + SPECIAL[0]
