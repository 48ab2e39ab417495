"""Requests at various stages, the token counts that chunked prefill gives them, and a loop that serves them all.

A request is a tuple (prompt tokens, output tokens, computed tokens). Every request has distinct token ids, so that none
of another request is mistaken for its own. `kind` is the request class, the learner's or ours.
"""

from hypothesis import strategies as st
from tests.week2.counting import is_a

from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail


def requests_of(kind, specs):
    """Return requests, oldest first."""
    found = []
    for number, (prompt, output, read) in enumerate(specs):
        tokens = [10_000 * number + i for i in range(prompt + output)]
        found.append(
            kind(tokens[:prompt], output + 1000, request_id=number, output=tokens[prompt:], num_computed_tokens=read)
        )
    return found


def in_words(specs):
    """Describe requests: `0 decodes (3 + 2), 1 prefills 5 of 9`."""
    words = []
    for number, (prompt, output, read) in enumerate(specs):
        if writes(prompt, output, read):
            words.append(f"{number} decodes ({prompt} + {output})")
        else:
            words.append(f"{number} has {prompt + output - read} of {prompt}{f' + {output}' * bool(output)} uncomputed")
    return ", ".join(words) or "no request is running"


def writes(prompt, output, read):
    return output > 0 and read == prompt + output - 1


def counts_by_rule(specs, budget):
    """Return the number of tokens per request id that the next step computes; requests without tokens are left out."""
    rest, found = budget, {}
    everybody = [(*spec, number) for number, spec in enumerate(specs)]
    for _, number in sorted(
        (output, number) for prompt, output, read, number in everybody if writes(prompt, output, read)
    ):
        if rest > 0:
            found[number] = 1
            rest -= 1
    for prompt, output, read, number in everybody:
        if not writes(prompt, output, read) and rest > 0:
            found[number] = min(rest, prompt + output - read)
            rest -= found[number]
    return found


def shared_counts_by_rule(specs, budget):
    """Return the counts if the oldest prompt and the shortest divide what decoding leaves: a token at a time."""
    found = {number: n for number, n in counts_by_rule(specs, budget).items() if writes(*specs[number])}
    need = {number: p + o - read for number, (p, o, read) in enumerate(specs) if not writes(p, o, read)}
    left = budget - len(found)
    by_size = sorted(list(need)[1:], key=need.__getitem__)
    for _ in range(min(left, sum(need.values()))):
        first = next(iter(need))
        later = [number for number in by_size if found.get(number, 0) < need[number]]
        owed = found.get(first, 0) < min(need[first], left - left // 2)
        number = first if owed or not later else later[0]
        found[number] = found.get(number, 0) + 1
    return found


def check_policy(call, rule, types, specs, budget, words="", size=0, swept=False):
    """Check that the chunks, in any order, are those of a rule, twice, and that requests and list are unchanged.

    `call` is given the running requests; `types` are the learner's Request and Chunk.
    """
    request_type, chunk_type = types
    case = f"budget {budget}; {words or in_words(specs)}"
    running = requests_of(request_type, specs)
    given_list, size = list(running), size or len(specs)

    def told(kind, headline, *lines):
        fail(kind, headline, case, *lines, size=size, swept=swept)

    for turn in ("", "the second call: "):
        with noted(case):
            chunks = call(running)
        if not isinstance(chunks, list) or not all(is_a(chunk, chunk_type) for chunk in chunks):
            odd = next((x for x in chunks if not is_a(x, chunk_type)), None) if isinstance(chunks, list) else chunks
            told(
                Kind.TYPE,
                f"{turn}expected a list of Chunks, got {'one with ' * isinstance(chunks, list)}{type_words(odd)}",
            )
        if running != given_list:
            told(Kind.INPUT_CHANGED, f"{turn}the caller's list `running` was changed")
        for request, (prompt, output, read) in zip(running, specs, strict=True):
            if (len(request.prompt), len(request.output), request.num_computed_tokens) != (prompt, output, read):
                told(
                    Kind.INPUT_CHANGED,
                    f"{turn}request {request.request_id} was changed: only the scheduler may do that, not the policy",
                )
        found = {}
        for chunk in chunks:
            request = chunk.request
            if request.request_id in found or not chunk.tokens:
                what = "two chunks" if request.request_id in found else "a chunk of 0 tokens"
                told(
                    Kind.VALUES,
                    f"{turn}there {'are' if what[0] == 't' else 'is'} {what} of request {request.request_id}",
                )
            found[request.request_id] = len(chunk.tokens)
        wanted = rule(specs, budget)
        if found != wanted:
            lines = [f"{name:<10}{counts_in_words(counts)}" for name, counts in (("expected", wanted), ("got", found))]
            told(Kind.VALUES, f"{turn}the chunks have wrong token counts", *lines)
        for chunk in chunks:
            request, end = chunk.request, chunk.request.num_computed_tokens + len(chunk.tokens)
            due = chunk_type(
                request,
                request.num_computed_tokens,
                request.tokens(request.num_computed_tokens, end),
                int(end == request.num_tokens),
            )
            for name in ("start", "tokens", "num_logits"):
                one, other = getattr(due, name), getattr(chunk, name)
                if one != other:
                    lines = f"expected  {str(one)[:70]}", f"got       {str(other)[:70]}"
                    told(Kind.VALUES, f"{turn}wrong `{name}` in the chunk of request {request.request_id}", *lines)


def counts_in_words(counts):
    """Describe counts: `request 0: 1, request 3: 5`, cut to a line."""
    words = [f"{number}: {count}" for number, count in sorted(counts.items())]
    return ", ".join(words[:10] + ["..."] * (len(words) > 10)) or "nothing"


def drawn_specs(generator, count, longest):
    """Draw requests, each of which decodes, prefills, or recomputes after a preemption."""
    specs = []
    for _ in range(count):
        prompt, output = int(generator.integers(1, longest + 1)), int(generator.integers(0, 5))
        kind = generator.integers(4)
        read = prompt + output - 1 if kind < 2 and output else int(generator.integers(prompt + output))
        specs.append((prompt, output, read))
    return specs


ANY_SPECS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 99)).map(lambda s: (s[0], s[1], s[2] % sum(s[:2]))),
    max_size=6,
)


def prompts_of(lengths):
    """Return distinct prompts of these lengths."""
    return [[(7 * i + number) % 89 for i in range(length)] for number, length in enumerate(lengths)]


def next_token(tokens):
    """Return a distinct prompt per length; its continuation depends on every token so far."""
    return (sum(tokens) + 7 * len(tokens)) % 97


def texts_alone(prompts, most):
    """Return each prompt's expected continuation, of the given length."""
    found = []
    for prompt, count in zip(prompts, most, strict=True):
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(next_token(tokens))
        found.append(tokens[len(prompt) :])
    return found


def served(plan, kind, prompts, most, budget, slots, steps=10_000):
    """Let a policy serve all prompts; return their outputs and, per step, the token count of each request.

    Requests get slots in order of arrival. The loop ends after a limit of steps, or at a step without tokens. An
    invalid schedule, such as the same chunk twice, is executed as given: the outputs then differ.
    """
    waiting = [kind(list(p), m, request_id=i) for i, (p, m) in enumerate(zip(prompts, most, strict=True))]
    everybody, running, counts = list(waiting), [], []
    while (waiting or running) and len(counts) < steps:
        while waiting and len(running) < slots:
            running.append(waiting.pop(0))
        chunks = plan(list(running), budget)
        if not chunks:
            break
        counts.append({chunk.request.request_id: len(chunk.tokens) for chunk in chunks})
        for chunk in chunks:
            request = chunk.request
            request.num_computed_tokens = chunk.end
            if chunk.num_logits:
                request.output.append(next_token(request.tokens(0, chunk.end)))
            if len(request.output) == request.max_tokens and request in running:
                running.remove(request)
    return [request.output for request in everybody], counts
