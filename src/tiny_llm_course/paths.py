"""Where the parts of the checkout are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COURSE = ROOT / "src" / "tiny_llm_course"
LEARNER = ROOT / "src" / "tiny_llm"
SOLUTION = ROOT / "solutions" / "tiny_llm"
TESTS = ROOT / "tests"
BOOK = ROOT / "book"
REGISTRY = COURSE / "tasks.toml"
MODELS = ROOT / "models"
EMBEDDED_MODEL = MODELS / "tiny-qwen3"
