"""A server whose model writes what a request's field `user` says: the scheduler and the stream are real."""

import sys

from tiny_llm_course.engine.serving import load_scheduler
from tiny_llm_course.serving.guards import Access
from tiny_llm_course.serving.run import listen, serve


def load():
    engine = load_scheduler(None, True, "paged")
    end = next(iter(engine.checkpoint.eos_ids))

    def sample(logits, chunks):
        rows = []
        for chunk in chunks:
            tokens = [*engine.tokenizer.encode(chunk.request.user), end]
            rows.append([tokens[len(chunk.request.output)]] if chunk.num_logits else [])
        return rows

    engine.scheduler.sampler = sample
    return engine


listening = listen("127.0.0.1", int(sys.argv[1]))
serve(load, listening, Access(), waiting=8, grace=1, tell=lambda where, engine: None)
