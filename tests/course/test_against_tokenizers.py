"""Day 6's solution against Hugging Face's `tokenizers`, id for id. For maintainers: learners do not have that package.

Real tokenizers are looked for in the folder that the environment variable TINY_LLM_DATA names, by default in
`../shared/data` beside the checkout: `qwen/tokenizer.json` and `trial-model/tokenizer.json`.
"""

import json
import os
import runpy
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny_llm_course.paths import ROOT, TESTS
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.properties import ALWAYS_THE_SAME

tokenizers = pytest.importorskip("tokenizers", reason="not run here: needs tokenizers (pdm run dev-setup)")
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

load_solution()
from tiny_llm_solution.tokenizer import ByteLevelBPE, StreamingDetokenizer  # noqa: E402

pytestmark = pytest.mark.maintainers
WEEK = TESTS / "week1"
DATA = Path(os.environ.get("TINY_LLM_DATA", ROOT.parent / "shared" / "data"))
ROWS = json.loads((WEEK / "token_ids.json").read_text(encoding="utf-8"))
ALPHABET = pre_tokenizers.ByteLevel.alphabet()
# More examples than a learner's grade can wait for.
thorough = settings(ALWAYS_THE_SAME, max_examples=150)


def script(name):
    """One of the scripts beside the tests of the week."""
    return SimpleNamespace(**runpy.run_path(str(WEEK / f"{name}.py")))


def trained(pattern=None, normalizer=None, merges=600):
    """A tokenizer that `tokenizers` has learned itself, as GPT-2's without a pattern, else as Qwen's."""
    tokenizer = Tokenizer(models.BPE())
    step = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    split = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, step]) if split else step
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=256 + merges, initial_alphabet=ALPHABET, show_progress=False)
    text = (WEEK / "tokenizer_text.txt").read_text(encoding="utf-8")
    tokenizer.train_from_iterator([text, *(row["text"] for row in ROWS)], trainer)
    # Prefixes of each other, and one that normalization would change.
    for special in ("<|e", "<|end|>", "<|im_start|>", "<|im_end|>", "<|end|><|end|>", "e\u0301"):
        tokenizer.add_special_tokens([AddedToken(special, normalized=False)])
    return tokenizer


@pytest.fixture(scope="module", params=["fixture", "as Qwen", "as GPT-2", "NFKC", "qwen", "trial-model"])
def pair(request, tmp_path_factory):
    """Theirs and ours, from the same tokenizer.json."""
    pattern = script("learn_tokenizer").PATTERN
    if request.param in ("qwen", "trial-model"):
        path = DATA / request.param / "tokenizer.json"
        if not path.is_file():
            pytest.skip(f"not run here: needs {path} (TINY_LLM_DATA names another folder)")
    elif request.param == "fixture":
        path = WEEK / "tokenizer.json"
    else:
        path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
        settings = {"as Qwen": (pattern, normalizers.NFC()), "as GPT-2": (), "NFKC": (pattern, normalizers.NFKC())}
        trained(*settings[request.param]).save(str(path))
    return Tokenizer.from_file(str(path)), ByteLevelBPE.from_file(path)


def check(pair, text):
    theirs, ours = pair
    ids = theirs.encode(text, add_special_tokens=False).ids
    assert ours.encode(text) == ids
    for skip in (True, False):
        assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_hard_texts(pair, row):
    check(pair, row["text"])


@pytest.mark.parametrize(
    "text", ["<|e<|end|><|end|><|end|>e\u0301e\u0301\u00e9<|END|>", "<|end|><|e <|end|>", "<|en<|end|"]
)
def test_special_tokens_that_begin_alike(pair, text):
    check(pair, text)


def test_as_llama_3_a_word_that_is_a_token_is_not_merged(tmp_path):
    """Digits by three, and tokens that no merge makes."""
    file = tmp_path / "tokenizer.json"
    trained(script("learn_tokenizer").PATTERN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")).save(str(file))
    data = json.loads(file.read_text(encoding="utf-8"))
    data["model"]["ignore_merges"], vocab = True, data["model"]["vocab"]
    vocab |= {token: len(vocab) + i for i, token in enumerate(("\u0120unmergeable", "789"))}
    for added in data["added_tokens"]:
        added["id"] += 2
    file.write_text(json.dumps(data), encoding="utf-8")
    both = Tokenizer.from_file(str(file)), ByteLevelBPE.from_file(file)
    for text in (" unmergeable", "unmergeable 123456789 unmergeables", " unmergeable<|end|> unmergeable's 7890"):
        check(both, text)
    assert both[1].encode(" unmergeable") == [vocab["\u0120unmergeable"]]


# Characters that Unicode has had since version 3.2 of 2002: Python's tables and those of `tokenizers` agree on them.
OLD = [chr(i) for i in range(0x30000) if unicodedata.ucd_3_2_0.category(chr(i)) not in ("Cn", "Cs")]
PIECES = [
    *(row["text"] for row in ROWS if len(row["text"]) < 40),
    "<|e",
    "<|end|>",
    "<|im_end|>",
    "'S",
    " ",
    "\n",
    "\r",
]


@thorough
@given(parts=st.lists(st.one_of(st.sampled_from(OLD), st.sampled_from(PIECES)), max_size=20))
def test_any_text(pair, parts):
    check(pair, "".join(parts))


@thorough
@given(data=st.data())
def test_any_tokens(pair, data):
    """Tokens that no text gives, and bytes that are not UTF-8; in one go and as a stream."""
    theirs, ours = pair
    single = sorted(i for i, piece in ours.token_bytes.items() if len(piece) == 1)
    ids = data.draw(
        st.lists(st.one_of(st.sampled_from(sorted(ours.token_bytes)), st.sampled_from(single)), max_size=15)
    )
    for skip in (True, False):
        assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)
        stream = StreamingDetokenizer(ours, skip)
        assert "".join([*map(stream.add, ids), stream.finish()]) == ours.decode(ids, skip)


def test_every_two_bytes_decode_alike(pair):
    """Wherever UTF-8 can break: all pairs of one byte of each kind, and a third."""
    theirs, ours = pair
    id_of = {piece: i for i, piece in ours.token_bytes.items() if len(piece) == 1}
    kinds = [id_of[bytes([b])] for b in (0x41, 0x80, 0xA0, 0xBF, 0xC1, 0xC3, 0xE0, 0xED, 0xE2, 0xF0, 0xF4, 0xF5, 0xFF)]
    for ids in ([a, b, c, d] for a in kinds for b in kinds for c in kinds for d in kinds[:4]):
        assert ours.decode(ids) == theirs.decode(ids)


def test_the_recorded_ids_are_current():
    recorder, theirs = script("record_ids"), Tokenizer.from_file(str(WEEK / "tokenizer.json"))
    assert {row["name"]: row["text"] for row in ROWS} == recorder.TEXTS
    assert [row["ids"] for row in ROWS] == [theirs.encode(row["text"]).ids for row in ROWS]


def test_the_small_tokenizer_is_what_its_script_learns():
    assert script("learn_tokenizer").learn() == json.loads((WEEK / "tokenizer.json").read_text(encoding="utf-8"))


def test_merging_a_pair_everywhere_is_merging_one_place_at_a_time(pair):
    """True of tables in which a token is made by one pair, and after its parts; `tokenizers` goes place by place."""
    _, ours = pair
    made: dict[str, int] = {}
    for (first, second), rank in ours.ranks.items():
        assert first + second not in made
        assert made.get(first, -1) < rank
        assert made.get(second, -1) < rank
        made[first + second] = rank
    for token in ours.vocab:
        assert len(token) == 1 or token in made


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {"type": "Unigram"}}, "is of type Unigram"),
        ({"model": {"type": "BPE", "byte_fallback": True}}, "is of type BPE"),
        ({"pre_tokenizer": None}, "has no byte-level step"),
        ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, "adds a space before the text"),
        ({"normalizer": {"type": "Sequence", "normalizers": []}}, "normalizes by Sequence"),
    ],
)
def test_what_would_give_other_ids_is_refused(change, words, tmp_path):
    file = tmp_path / "tokenizer.json"
    data = json.loads((WEEK / "tokenizer.json").read_text(encoding="utf-8"))
    file.write_text(json.dumps(data | change), encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        ByteLevelBPE.from_file(file)
