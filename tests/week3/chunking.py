"""Requests in the middle of their way, what chunked prefill reads of them, and a loop that goes on to their ends.

A request is told as (tokens of its prompt, of its output, how many of both are read). Its tokens are numbers of its
own, so that none of another request is taken for one of them. `kind` is the class of requests, the learner's or ours.
"""


def requests_of(kind, specs):
    """The oldest first."""
    found = []
    for number, (prompt, output, read) in enumerate(specs):
        tokens = [10_000 * number + i for i in range(prompt + output)]
        found.append(kind(tokens[:prompt], output + 1000, number=number, output=tokens[prompt:], read=read))
    return found


def in_words(specs):
    """`0 writes (3 + 2), 1 reads 5 of 9`."""
    words = []
    for number, (prompt, output, read) in enumerate(specs):
        if writes(prompt, output, read):
            words.append(f"{number} writes ({prompt} + {output})")
        else:
            words.append(f"{number} has {prompt + output - read} of {prompt}{f' + {output}' * bool(output)} unread")
    return ", ".join(words) or "nobody runs"


def writes(prompt, output, read):
    return output > 0 and read == prompt + output - 1


def counts_by_rule(specs, budget):
    """How many tokens of each request, by its number, the next step reads; a request with none is not there."""
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
    """A text of its own for each prompt: what follows depends on every token so far."""
    return (sum(tokens) + 7 * len(tokens)) % 97


def texts_alone(prompts, most):
    """What each prompt is continued by, so many tokens each."""
    found = []
    for prompt, count in zip(prompts, most, strict=True):
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(next_token(tokens))
        found.append(tokens[len(prompt) :])
    return found


def served(plan, kind, prompts, most, budget, slots, steps=10_000):
    """Let a plan serve all prompts: their outputs, and how many tokens of whom each step read.

    Whoever comes first gets one of the slots. It ends after so many steps, or when a step reads nothing. A plan that
    gives what is not there, such as a chunk twice, is served as it says: then the texts are others.
    """
    waiting = [kind(list(p), m, number=i) for i, (p, m) in enumerate(zip(prompts, most, strict=True))]
    everybody, running, counts = list(waiting), [], []
    while (waiting or running) and len(counts) < steps:
        while waiting and len(running) < slots:
            running.append(waiting.pop(0))
        chunks = plan(list(running), budget)
        if not chunks:
            break
        counts.append({chunk.request.number: len(chunk.tokens) for chunk in chunks})
        for chunk in chunks:
            request = chunk.request
            request.read = chunk.end
            if chunk.scored:
                request.output.append(next_token(request.tokens(0, chunk.end)))
            if len(request.output) == request.max_tokens and request in running:
                running.remove(request)
    return [request.output for request in everybody], counts
