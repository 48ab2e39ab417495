"""Requests at various stages, the token counts that chunked prefill gives them, and a loop that serves them all.

A request is a tuple (prompt tokens, output tokens, computed tokens). Every request has distinct token ids, so that none
of another request is mistaken for its own. `kind` is the request class, the learner's or ours.
"""


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
