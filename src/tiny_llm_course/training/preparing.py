"""Validates the arguments of `pdm run train` and builds its job; every error is one line, before any work."""

import os
from pathlib import Path

import torch
from tokenizers import Tokenizer

from ..checkpoints.checkpoint import load_checkpoint
from ..checkpoints.features import unsupported_features
from ..checkpoints.held_out import FILE, shipped_stories
from ..course.file_paths import name_of
from ..course.registry import UsageError
from .packing import SPECIAL, train_tokenizer
from .recipe import Recipe
from .stories import read_stories, split, unseen
from .trainer import Job

Texts = tuple[Path, ...]
Teacher = Path | None  # a model's folder


def prepare(recipe: Recipe, texts: Texts, out: Path, device: str | None, workers: int | None, teacher: Teacher) -> Job:
    """Return the job; raise UsageError if a text, folder, device or teacher is unsuitable."""
    device, workers = _processes(device, workers, recipe.schedule.rows)
    _check_teacher(recipe, teacher)
    stories, held_out = training_stories(texts)
    tokenizer = _tokenizer(teacher, stories, recipe)
    job = Job(recipe, stories, held_out, tokenizer, out, device, workers, teacher)
    _check_folder(job)
    job.state()
    return job


def training_stories(texts: Texts) -> tuple[list[str], list[str]]:
    """Return training stories and unseen held-out ones of the first text; UsageError for an unusable text."""
    first, *others = [_stories_to_train_on(file) for file in texts]
    stories, held_out = split(first)
    apart = set(held_out)
    more = (story for other in others for story in other if story not in apart)
    stories = list(dict.fromkeys([*stories, *more]))
    if not (judges := unseen(held_out, stories)):
        raise UsageError(f"{texts[0]} is too short: of its {len(stories)} stories, none would be held out")
    return stories, judges


def _stories_to_train_on(file: Path) -> list[str]:
    stories, judges = read_stories(file), shipped_stories() if FILE.is_file() else []
    if len(unseen(judges, stories)) < len(judges):
        raise UsageError(f"{file} has stories of {name_of(FILE)}, which are reserved for evaluation")
    return stories


def _processes(device: str | None, workers: int | None, rows: int) -> tuple[str, int]:
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    devices = [name for name, there in here.items() if there]
    if device and device not in devices:
        raise UsageError(f"--device {device} is not available here; available: {' and '.join(devices)}")
    device = device or devices[0]
    if device != "cpu":
        if workers and workers > 1:
            raise UsageError(f"--workers {workers} needs --device cpu; {device} uses one process")
        return device, 1
    return device, min(workers or max(1, (os.cpu_count() or 1) - 1), rows)


def _check_folder(job: Job) -> None:
    """Refuse an existing model's folder, and check that it is writable before training."""
    if not job.checkpoint.exists() and any(job.out.glob("*.safetensors")):
        raise UsageError(f"{job.out} already holds a model: choose another --out")
    try:
        job.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        trial = job.checkpoint.with_suffix(".part")
        trial.write_bytes(b"")
        trial.unlink()
    except OSError as error:
        raise UsageError(f"{job.out} cannot be written to: {error.strerror}") from error


def _check_teacher(recipe: Recipe, teacher: Teacher) -> None:
    learns = recipe.schedule.teacher_share > 0
    if learns and teacher is None:
        raise UsageError(f"The recipe {recipe.name} distils a larger model: name its folder with --teacher")
    if teacher is None:
        return
    if not learns:
        raise UsageError(f"The recipe {recipe.name} has teacher_share = 0, so --teacher would have no effect")
    config = load_checkpoint(teacher).config
    plain = config["model_type"] == "qwen3" and not unsupported_features(config)
    if not plain or not config.get("tie_word_embeddings") or "rope_theta" not in config:
        raise UsageError(f"{teacher} cannot teach: expected a Qwen3 with tied embeddings, as `pdm run train` makes it")
    if (context := config["max_position_embeddings"]) < recipe.schedule.context:
        raise UsageError(f"{teacher} has a context of {context} tokens, fewer than the recipe's")


def _tokenizer(teacher: Teacher, stories: list[str], recipe: Recipe) -> str:
    """Return the teacher's tokenizer, or a new one, as JSON."""
    if teacher is None:
        tokenizer = train_tokenizer(stories, recipe.architecture.vocab_size)
    else:
        tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
        if missing := [token for token in SPECIAL if tokenizer.token_to_id(token) is None]:
            raise UsageError(f"{teacher}'s tokenizer lacks {', '.join(missing)}")
    wanted, got = recipe.architecture.vocab_size, tokenizer.get_vocab_size()
    if got != wanted:
        origin = "the text gives" if teacher is None else f"{teacher} has"
        what = f"{origin} {got} tokens: add text, or set vocab_size = {got}"
        raise UsageError(f"The recipe's vocab_size is {wanted}, but {what}")
    return str(tokenizer.to_str())
