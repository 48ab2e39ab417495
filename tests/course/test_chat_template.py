"""Chat templates, rendered as transformers renders them; our own templates, in the manner of Qwen2.5's and Qwen3's."""

import datetime
import importlib.util

import pytest

from tiny_llm_course.checkpoints.chat_template import render_chat
from tiny_llm_course.course.registry import UsageError

QWEN25 = """\
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nAnswer in one sentence.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) or message.role == "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

QWEN3 = """\
{%- if tools %}
    {{- 'tools' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" %}
        {%- set ns.last = index %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is not string %}
        {%- continue %}
    {%- endif %}
    {%- set content = message.content %}
    {%- if message.role == "assistant" and loop.index0 < ns.last and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# No dashes: what blocks leave of their own lines is trimmed by the environment.
BLOCKS = """\
{{ bos_token }}
{% for message in messages %}
    {% if loop.index is odd %}
<{{ message['role'] | upper }}> {{ message['content'] | trim }}
    {% else %}
{% generation %}
[{{ message.content }}]{{ eos_token }}
{% endgeneration %}
    {% endif %}
{% endfor %}
{{ tools is none }} {{ documents is none }} {{ pad_token is defined }}"""

TEMPLATES = {
    "qwen2.5": QWEN25,
    "qwen3": QWEN3,
    "blocks": BLOCKS,
    "json": "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}{{ messages | tojson(ensure_ascii=true) }}",
    "names": "{% for m in messages %}{{ m.get('name', 'nobody') }}{% for k in m %}{{ k }}{% endfor %}{% endfor %}",
    "macro": "{% macro say(m) %}<{{ m.role }}>{{ m.content }}{% endmacro %}{{ say(messages[0]) + say(messages[-1]) }}",
    "html": "{% for m in messages %}{{ m.content }}{% endfor %}\n\n",
    "empty": "",
}
ONE = [{"role": "user", "content": "Hello"}]
CONVERSATIONS = {
    "one": ONE,
    "system": [{"role": "system", "content": "Be brief."}, *ONE],
    "turns": [
        *ONE,
        {"role": "assistant", "content": "<think>\nA greeting.\n</think>\n\nHi!"},
        {"role": "user", "content": "  And then?\n"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "Go on."},
    ],
    "odd text": [{"role": "user", "content": "<b>\"5 > 3\" & 'so'</b> {{ x }} {% y %} é 你好 🙂<|im_end|>\n\t\\"}],
}
SPECIAL = {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}


@pytest.fixture(scope="module")
def theirs():
    """`theirs(template, messages, ...)`: what transformers makes of it."""
    for name in ("transformers", "tokenizers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"not run here: {name} is not installed (pdm run dev-setup)")
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **SPECIAL)

    def render(template, messages, add_generation_prompt):
        return tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, add_generation_prompt=add_generation_prompt
        )

    return render


@pytest.mark.parametrize("prompt", [True, False], ids=["prompt", "no prompt"])
@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_as_transformers_renders_it(theirs, template, messages, prompt):
    assert render_chat(template, messages, SPECIAL, add_generation_prompt=prompt) == theirs(template, messages, prompt)


def test_a_known_rendering():
    """Where transformers is not installed, this one stands."""
    text = "<|im_start|>system\nAnswer in one sentence.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
    assert render_chat(QWEN25, ONE, add_generation_prompt=False) == text
    assert render_chat(QWEN25, ONE) == text + "<|im_start|>assistant\n"


def test_reasoning_of_earlier_turns_is_forgotten_by_qwen3s_template():
    assert "A greeting" not in render_chat(QWEN3, CONVERSATIONS["turns"])
    assert "A greeting" in render_chat(QWEN25, CONVERSATIONS["turns"])


def test_the_date(theirs):
    template = "{{ strftime_now('%Y-%m-%d') }}"
    days = [datetime.datetime.now().strftime("%Y-%m-%d")]
    ours = [render_chat(template, ONE), theirs(template, ONE, False)]
    days.append(datetime.datetime.now().strftime("%Y-%m-%d"))  # it may be midnight
    assert set(ours) <= set(days)


@pytest.mark.parametrize(
    ("template", "line"),
    [
        (
            "{{ raise_exception('Roles must alternate!\\nSo there.') }}",
            "The model's chat template: Roles must alternate!",
        ),
        ("{{ raise_exception('') }}", "The model's chat template: TemplateError"),
        ("{% for m in messages %}", "The model's chat template, line 1: Unexpected end of template."),
        ("a\n{{ 1 + }}", "The model's chat template, line 2: "),
        ("{% nonsense %}", "The model's chat template, line 1: Encountered unknown tag 'nonsense'."),
        ("{{ messages[0].missing.name }}", "The model's chat template: 'dict object' has no attribute 'missing'"),
        ("{{ 1 + 'a' }}", "The model's chat template: unsupported operand"),
        ("{{ 1 // 0 }}", "The model's chat template: "),
        ("{{ messages.append(1) }}", "The model's chat template: "),
        ("{{ ''.__class__.__mro__ }}", "The model's chat template: access to attribute '__class__'"),
        ("{{ range(10 ** 9) | list }}", "The model's chat template: Range too big"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "The model's chat template: maximum recursion depth"),
    ],
)
def test_a_template_that_fails_is_one_line(template, line):
    with pytest.raises(UsageError) as caught:
        render_chat(template, ONE)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_the_conversation_stays_as_it_is():
    messages = [dict(message) for message in CONVERSATIONS["turns"]]
    render_chat(QWEN3, messages)
    assert messages == CONVERSATIONS["turns"]
