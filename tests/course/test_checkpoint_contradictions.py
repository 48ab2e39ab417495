"""One line for every checkpoint folder that contradicts itself, or reaches beyond itself."""

import json
import shutil
import struct

import mlx.core as mx
import pytest
from tests.course.checkpoint_folders import chatting, put_json, refusal, small, tokenizer_table

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.engine import talk
from tiny_llm_course.engine.engine import Sampling, load_engine
from tiny_llm_course.engine.serving import load_scheduler

QUERY, KEY = (f"model.layers.0.self_attn.{part}_proj.weight" for part in "qk")
FIRST, SECOND = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))
INDEX = "model.safetensors.index.json"


def places(folder):
    return json.loads((folder / INDEX).read_text())["weight_map"]


@pytest.mark.parametrize("name", ["../{}", "{folder}/../{}", "more/../../{}", "..\\{}", ".", "", "config.json", "a\0b"])
def test_an_index_that_leaves_its_folder(checkpoint, name):
    folder = checkpoint(small(), shards=2)
    shutil.copy(folder / FIRST, folder.parent / FIRST)
    name = name.format(FIRST, folder=folder)
    put_json(folder / INDEX, {"weight_map": {key: name if at == FIRST else at for key, at in places(folder).items()}})
    assert refusal(folder).startswith(f"{INDEX} names ")
    assert refusal(folder).endswith(", expected *.safetensors files in its own folder")


def test_an_index_that_names_another_file_for_a_weight(checkpoint):
    folder = checkpoint(small(), shards=2)
    other = SECOND if places(folder)[QUERY] == FIRST else FIRST
    put_json(folder / INDEX, {"weight_map": {**places(folder), QUERY: other}})
    assert refusal(folder) == f"{INDEX} says that {other} has the weight {QUERY}, but it does not"


def test_a_weight_in_two_files(checkpoint):
    folder = checkpoint(small())
    mx.save_safetensors(str(folder / "other.safetensors"), {QUERY: mx.zeros((96, 64))})
    assert (
        refusal(folder) == f"other.safetensors and model.safetensors both have the weight {QUERY}, expected one of them"
    )


@pytest.mark.parametrize(
    ("part", "lacks"), [("other.scales", "other.weight"), (f"{QUERY[:-7]}.biases", f"{QUERY[:-7]}.scales")]
)
def test_scales_of_no_weight(checkpoint, part, lacks):
    folder = checkpoint(small())
    mx.save_safetensors(str(folder / "other.safetensors"), {part: mx.zeros((96, 2))})
    assert refusal(folder) == f"other.safetensors has {part}, but no {lacks}"


def changed_header(file, change):
    contents = file.read_bytes()
    length = struct.unpack("<Q", contents[:8])[0]
    header = change(json.loads(contents[8 : 8 + length])).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + contents[8 + length :])


@pytest.mark.parametrize("offsets", [[0, 24576], [-24576, 0], [1 << 40, (1 << 40) + 24576], "reversed", "shorter"])
def test_weights_that_overlap_or_leave_gaps(checkpoint, offsets):
    def change(header):
        begin, end = header[QUERY]["data_offsets"]
        named = {"reversed": [end, begin], "shorter": [begin, end - 4]}
        header[QUERY]["data_offsets"] = named.get(offsets, offsets) if isinstance(offsets, str) else offsets
        return json.dumps(header)

    folder = checkpoint(small())
    changed_header(folder / "model.safetensors", change)
    assert refusal(folder) == "model.safetensors is damaged: its weights overlap or leave gaps, expected neither"


def test_a_key_twice_in_a_header(checkpoint):
    folder = checkpoint(small())
    changed_header(
        folder / "model.safetensors",
        lambda header: f'{json.dumps(header)[:-1]}, "{QUERY}": {json.dumps(header[KEY])}}}',
    )
    assert refusal(folder) == f"model.safetensors has the key '{QUERY}' twice in one object, expected once"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_a_key_twice_in_a_json_file(checkpoint, name):
    folder = checkpoint(small(), generation={"a": 1})
    (folder / name).write_text((folder / name).read_text().replace("{", '{"a": 2, "a": 3, ', 1))
    assert refusal(folder) == f"{name} has the key 'a' twice in one object, expected once"


TABLE = tokenizer_table()
MODEL, ADDED = TABLE["model"], TABLE["added_tokens"]
VOCAB = MODEL["vocab"]
ONE = "expected one id for each token, and one token for each id"


def split(pattern, **more):
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False, **more}
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [step, {"type": "ByteLevel", "use_regex": False}]}}


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        ({"model": {**MODEL, "vocab": {**VOCAB, "the": 256}}}, f"has the token 'th' or its id 256 twice, {ONE}"),
        ({"added_tokens": [{"content": "<x>", "id": 5}]}, f"has the token '&' or its id 5 twice, {ONE}"),
        ({"added_tokens": [{"content": "th", "id": 270}]}, f"has the token 'th' or its id 256 twice, {ONE}"),
        ({"model": {**MODEL, "vocab": {}}}, "has no vocabulary, expected model.vocab with an id for each token"),
        ({"model": {**MODEL, "vocab": {**VOCAB, "th": True}}}, "has no vocabulary, expected model.vocab with"),
        ({"model": {**MODEL, "vocab": {**VOCAB, "": 270}}}, "has no vocabulary, expected model.vocab with"),
        ({"added_tokens": [{"content": 5, "id": 270}]}, "has no vocabulary, expected model.vocab with"),
        (
            {"model": {**MODEL, "vocab": {k: i for k, i in VOCAB.items() if k != "a"}}},
            "has no token 'a', expected one for each of the 256 bytes",
        ),
        (
            {"model": {**MODEL, "vocab": {**VOCAB, "日": 270}}},
            "has the token '日', expected GPT-2's characters for bytes",
        ),
        ({"model": {**MODEL, "merges": [["xx", "y"]]}}, "has the merge ['xx', 'y'], expected two tokens that spell a"),
        ({"model": {**MODEL, "merges": [["x", "y"]]}}, "has the merge ['x', 'y'], expected two tokens that spell a"),
        (
            {"model": {**MODEL, "merges": ["t h e"]}},
            "has the merge 't h e', expected two tokens that spell a third one",
        ),
        ({"model": {**MODEL, "merges": ["t h", ["t", "h"]]}}, "has the merge ['t', 'h'] twice, expected each once"),
        (
            {"added_tokens": [{**ADDED[0], "special": "no"}]},
            f"has special = 'no' for the token {ADDED[0]['content']!r}, expected true or false",
        ),
        ({"added_tokens": [{**ADDED[0], "lstrip": True}]}, "has added tokens with lstrip, "),
        (split("(?<"), "has the regular expression '(?<', expected a valid one without groups that skips no character"),
        (split(r"(\w)|\W"), r"has the regular expression '(\\w)|\\W', expected a valid one without groups"),
        (split(r"\w+"), r"has the regular expression '\\w+', expected a valid one without groups that skips no char"),
        (split(r"\w+|\W+", behavior="Removed"), "has "),
    ],
    ids=str,
)
def test_a_tokenizer_that_contradicts_itself(checkpoint, entries, line):
    folder = checkpoint(small())
    put_json(folder / "tokenizer.json", {**TABLE, **entries})
    assert refusal(folder).startswith(f"tokenizer.json {line}")


def test_a_tokenizer_with_a_pattern_of_its_own(checkpoint):
    folder = checkpoint(small())
    put_json(folder / "tokenizer.json", {**TABLE, **split(r"\s?\p{L}+|\P{L}")})
    load_checkpoint(folder)


def test_a_chat_template_that_is_not_jinja(tmp_path):
    folder = chatting(tmp_path / "broken", 96, "{% for m in messages %}")
    line = f"^{folder}/tokenizer_config.json has a chat template that is not valid Jinja: Unexpected end of template"
    with pytest.raises(UsageError, match=line):
        talk.chat(load_engine(str(folder), True, "float32", "kv-cache"), 3, Sampling())
    (folder / "chat_template.jinja").write_text("{{ messages[0 }}")
    with pytest.raises(UsageError, match=r"/chat_template\.jinja has a chat template that is not valid Jinja: "):
        load_scheduler(str(folder), True, dtype="float32")
