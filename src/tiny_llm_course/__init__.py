"""The course's harness: grading, diagnosis, stubs, the command line. The learner's code is in `tiny_llm`."""
