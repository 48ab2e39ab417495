"""The text of a model card, with the figures of record.json and bench.json in it."""

from typing import Any

from gather_stories import SOURCES

TRIAL = "trial-model"
BASE, ON_TOPIC = "tiny-qwen3", "on-topic"
PYTORCH_TRAINER = "2717fcc5"
URL = "https://cdla.dev/sharing-1-0/"


def card(record: dict[str, Any], bench: dict[str, Any]) -> str:
    """README.md of a model."""
    draft = record["teacher"] is not None
    own = next(row for row in bench["models"] if row["name"] == record["name"])
    parts = [
        _draft_head(record, own) if draft else _head(record, own, bench),
        _results(record, bench),
        _making(record, bench),
    ]
    parts += [_samples(record), _limits(draft), _data(record)]
    return "\n".join(parts)


def _head(record: dict[str, Any], own: dict[str, Any], bench: dict[str, Any]) -> str:
    c, asked = record["architecture"], bench["requests"]
    return f"""# {record["name"]}

A trained Qwen3, small enough to ship with the course: {record["weights"]:,} weights, {own["bytes"] / 1e6:.1f} MB in bfloat16.
It tells short stories in simple English. It is the default of every `--model`:

```text
pdm run generate "Once upon a time" --solution
pdm run chat --solution
```

Without `--solution` your own engine runs it. mlx-lm and transformers load the folder too, with the same logits.

| | |
|---|---|
| layers | {c["num_hidden_layers"]} |
| hidden size E | {c["hidden_size"]} |
| heads H, key-value heads H_kv | {c["num_attention_heads"]}, {c["num_key_value_heads"]} |
| head dimension D | {c["head_dim"]}, so H x D = {c["num_attention_heads"] * c["head_dim"]} is not E, as in Qwen3-0.6B |
| MLP width | {c["intermediate_size"]} (SwiGLU) |
| vocabulary V | {c["vocab_size"]}, embeddings tied |
| RoPE theta | {c["rope_theta"]:,.0f} |
| longest context | {c["max_position_embeddings"]} tokens; trained on {record["schedule"]["context"]} |

Every size is a multiple of 64, so each matrix can be quantized in groups of 64.

It also answers a request in its chat template, `Write a story about a frog.`, with a story. Asked for {asked["asked"]} subjects of
the held-out stories, it named the subject at least twice in {asked["follow"]} answers, and emitted an end token within 500
tokens in {asked["end"]}. It answers a greeting, thanks, and the question who it is, because a few such answers were written for
its training. That is all the conversation it knows.

{_with_adapter(own, bench)}"""


def _with_adapter(own: dict[str, Any], bench: dict[str, Any]) -> str:
    judged = bench["adapters"][ON_TOPIC]
    more = judged["models"][0]["nats_per_token"] / own["nats_per_token"] - 1
    return f"""With the adapter [{ON_TOPIC}](../{ON_TOPIC}/README.md), it named the subject at least twice in {judged["requests"]["follow"]} of {judged["requests"]["asked"]} answers to the same
requests. Its loss on the held-out stories is then {more:.1%} higher. `pdm run serve --adapter {ON_TOPIC}=models/{ON_TOPIC}` serves both."""


def adapter_card(record: dict[str, Any], bench: dict[str, Any]) -> str:
    """README.md of the adapter."""
    base = next(row for row in bench["models"] if row["name"] == BASE)
    shipped = next(row for row in bench["shipped"]["models"] if row["name"] == BASE)
    judged, rounds = bench["adapters"][ON_TOPIC], record["rounds"]
    rows = [
        (
            f"stories about the subject, of {bench['requests']['asked']}",
            bench["requests"]["follow"],
            judged["requests"]["follow"],
        ),
        ("answers that end within 500 tokens", bench["requests"]["end"], judged["requests"]["end"]),
        (
            f"nats per token, {bench['held_out']} held-out stories",
            *(f"{r['nats_per_token']:.3f}" for r in (base, judged["models"][0])),
        ),
        (
            f"nats per token, {bench['shipped']['held_out']} stories of the course",
            *(f"{r['nats_per_token']:.3f}" for r in (shipped, judged["shipped"]["models"][0])),
        ),
    ]
    table = "\n".join(f"| {what} | {before} | {after} |" for what, before, after in rows)
    answers, kept = (sum(each[name] for each in rounds) for name in ("answers", "kept"))
    return f"""# {ON_TOPIC}

A LoRA adapter for [{BASE}](../{BASE}/README.md), in PEFT's form. With it, more of the model's stories are about what the request
names.

```text
pdm run serve --adapter {ON_TOPIC}=models/{ON_TOPIC}
```

A request whose `model` is `{ON_TOPIC}` uses it.

| | {BASE} | with {ON_TOPIC} |
|---|---|---|
{table}

A story is about its subject if it names it at least twice. `pdm run python benches/embedded_model.py stories.txt --also
stories-recased.txt --adapter models/{ON_TOPIC}` measures the right column: one answer to `Write a story about X.` for each of {bench["requests"]["asked"]}
subjects of the held-out stories, at temperature 1 and min-p 0.1.

## How it was made

`pdm run python models/follow_topics.py stories.txt --also stories-recased.txt --out models/{ON_TOPIC}` trained it with the code of
chapter 5.5, by rejection sampling fine-tuning:

- {len(rounds)} rounds. In each, the model with the adapter so far answered {rounds[0]["answers"]} requests. An answer was kept if it ended and named
  its subject at least three times, at most two per subject: {kept} of {answers} answers.
- The model was trained on the answers kept, with the loss on the answers only, and on stories that it wrote without a request, which
  keep its other text as it was: {sum(len(each["losses"]) for each in rounds)} steps of 16 answers and 4 stories, AdamW, learning rate 0.0015.
- The {record["subjects"]} subjects are from the training stories only: no held-out story has one of them.
- Rank 16, alpha 32, all attention matrices.

`record.json` has, for each round, how many answers named the subject, how many were kept, and the losses. The adapter is under the MIT
License.
"""


def _draft_head(record: dict[str, Any], own: dict[str, Any]) -> str:
    c = record["architecture"]
    return f"""# {record["name"]}

A draft model for [{record["teacher"]}](../{record["teacher"]}/README.md): {record["weights"]:,} weights, {own["bytes"] / 1e6:.2f} MB in bfloat16, the same
tokenizer. In speculative decoding it proposes draft tokens, and the larger model verifies several of them at once. Alone, it
tells stories that make less sense.

```text
pdm run generate "Once upon a time" --solution --model models/{record["name"]}
```

| | |
|---|---|
| layers | {c["num_hidden_layers"]} |
| hidden size E | {c["hidden_size"]} |
| heads H, key-value heads H_kv | {c["num_attention_heads"]}, {c["num_key_value_heads"]} |
| head dimension D | {c["head_dim"]} |
| MLP width | {c["intermediate_size"]} (SwiGLU) |
| vocabulary V | {c["vocab_size"]}, embeddings tied |
| RoPE theta | {c["rope_theta"]:,.0f} |

It was distilled on the same text: {record["schedule"]["teacher_share"]:.0%} of its loss is the cross-entropy with the larger model's
probabilities, the rest that with the text (Hinton et al. 2015)."""


def _results(record: dict[str, Any], bench: dict[str, Any]) -> str:
    return f"""
## How good it is

The models are evaluated on {bench["held_out"]} stories; neither these nor near copies of them were in the training data. The loss, per token and in
bits per byte, which does not depend on the tokenizer:

{_table(bench["models"])}

`pdm run python benches/embedded_model.py stories.txt --also stories-recased.txt` prints it, with the text made as below. The
n-gram model counts tokens of this tokenizer in the same training stories.
{_about_the_trial(bench)}
{_about_the_shipped(bench["shipped"])}

![Loss over the tokens trained on](loss.svg)"""


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"| {'the trial model' if row['name'] == TRIAL else row['name']} | {row['weights']:,} | {row['nats_per_token']:.3f} | "
        f"{row['bits_per_byte']:.3f} |"
        for row in rows
    ]
    return "\n".join(["| model | weights or counts | nats per token | bits per byte |", "|---|---|---|---|", *lines])


def _about_the_trial(bench: dict[str, Any]) -> str:
    if "new_to_all" not in bench:
        return ""
    new = bench["new_to_all"]
    return f"""
The trial model is an earlier one of 3 million weights, not in this repository (`--other FOLDER` evaluates any model). Most of
these stories were in its training data. {new["held_out"]} of them were not (`--others-text FILE` names its training text). On these alone:

{_table(new["models"])}"""


def _about_the_shipped(shipped: dict[str, Any]) -> str:
    return f"""The text of those stories is not in the repository. {shipped["held_out"]} others are,
[held-out-stories.txt](../held-out-stories.txt): written for the course in similar simple English and never trained on. They are
harder to predict. On these alone, as printed by `pdm run python benches/embedded_model.py`:

{_table(shipped["models"])}"""


def _making(record: dict[str, Any], bench: dict[str, Any]) -> str:
    s, last = record["schedule"], record["log"][-1]
    copies = record["held_out"] - bench["held_out"]
    near_copies = f"; {copies} of these have a near copy in the training data and are not used" if copies > 0 else ""
    muon = (
        f"Muon for the matrices within the layers (peak {s['muon_learning_rate']}), AdamW for the embedding and the norms "
        f"(peak {s['learning_rate']})"
        if s["muon_learning_rate"]
        else f"AdamW (peak {s['learning_rate']})"
    )
    return f"""
## How it was made

`pdm run python models/gather_stories.py FOLDER --out stories.txt` made the text. The model was trained with PyTorch, by
`pdm run train` as it was until 27 November 2026 (commit {PYTORCH_TRAINER} and its `models/{record["name"]}/recipe.toml`). Today,
`pdm run train` trains with the code of week 5.

- {record["stories"]:,} stories to train on, {record["held_out"]} held out (those whose SHA-256 begins with four bytes that, as a number, are a multiple of 32){near_copies}.
- Tokenizer: {"the larger model's" if record["teacher"] else "byte-level BPE with Qwen's pre-tokenization, trained on the same stories"}, {record["architecture"]["vocab_size"]} tokens.
- {s["steps"]} steps of {s["rows"]} rows of {s["context"]} tokens: {last["tokens"] / 1e6:.1f} million tokens, {last["epoch"]:.1f} epochs.
- {muon}; warm-up over {s["warmup"]} steps, then cosine decay to {s["final_share"]:.0%} of the peak.
- Weight decay {s["weight_decay"]}, dropout {s["dropout"]}, gradients clipped at {s["clip"]}, matrix products in bfloat16, seed {s["seed"]}.
- {s["chat_share"]:.0%} of the stories in each epoch were formatted as the answer to a request, for a thing or a named character that the
  story's opening introduces and that recurs; one request in twenty asks for any story.
- Small talk written for it: five kinds of remark ("Hello!", "Who are you?", "Thanks!" ...) with eight fixed answers, once in
  60 stories alone, and occasionally before or after a requested story.
- {record["minutes"]} minutes on {record["machine"]}, PyTorch {record["torch"]}."""


def _samples(record: dict[str, Any]) -> str:
    stories = "\n\n".join(
        f"**Seed {seed}**\n\n" + "\n".join(f"> {line}\n>" for line in text.splitlines()).removesuffix("\n>")
        for seed, text in record["samples"].items()
    )
    model = f" --model models/{record['name']}" if record["teacher"] else ""
    return f"""
## Five samples, not selected

`pdm run generate "Once upon a time" --solution --seed 1{model} --max-tokens 400` wrote the first, and so on with the other
seeds, on {record["samples_by"]}; temperature 1, min-p 0.1. Another machine may round differently and tell another story.

{stories}"""


def _limits(draft: bool) -> str:
    more = "" if draft else " Asked for anything but a story, it tells a story or produces nonsense."
    return f"""
## What it cannot do

It was trained on little but stories for small children: it knows no facts, cannot count, reason, translate or follow
instructions, and knows only English.{more} People and things change their names and places within a story, and events need not
follow from earlier ones. Large language models wrote the stories, and their habits and biases are in it: very many of the
children are called Lily, Tim or Tom. It is for learning how an engine works, and for nothing else."""


def _data(record: dict[str, Any]) -> str:
    rows = "\n".join(f"| {s.repository} | {s.commit} | {s.path} |" for s in SOURCES)
    hashes = "\n".join(f"- `{name}`: {digest}" for name, digest in record["texts"].items())
    return f"""
## Data and license

The text is part of TinyStories (Eldan and Li 2023, [arXiv:2305.07759](https://arxiv.org/abs/2305.07759)), written by GPT-3.5
and GPT-4 and published under the [CDLA-Sharing-1.0]({URL}). That license requires anyone who publishes the data, changed or not, to use
the same license; it exempts the results of computation on the data. The text is not in this repository. The weights are,
under the repository's MIT license. The parts of the text come from

| repository | commit | file |
|---|---|---|
{rows}

The last one has no capital letters; they were restored by rule, and none of its stories was held out. SHA-256 of the files
that `gather_stories.py` produces:

{hashes}
"""
