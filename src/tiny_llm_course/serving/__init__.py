"""A scheduler behind HTTP, in the form of OpenAI's API: routes and validation. What is about LLMs is the learner's."""
