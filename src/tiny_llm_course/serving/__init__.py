"""The learner's scheduler behind HTTP, with OpenAI's API: routes and validation."""
