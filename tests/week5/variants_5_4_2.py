"""Known programs of task 5.4.2, checkpoints."""

import json
import os
import tempfile
from pathlib import Path

import mlx.core as mx
from tests.week5.crashes import Crash, DiskCache, crashing_at
from tiny_llm_solution.training.checkpoint import Checkpoint, Checkpoints

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.4.2")
known.not_timed("a disk's sync takes as long as it takes")


def arrays(step, dtype=mx.float32):
    draw = normals(step, dtype)
    return {"w": draw(4, 3), "norm": draw(4)}, {"step": mx.array(step, mx.int32), "m.w": draw(4, 3)}


def save(program, folder, *steps, dtype=mx.float32):
    for step in steps:
        program(folder).save(step, *arrays(step, dtype), {"row": step, "loss": 1 / 3 + step})


def found(loaded):
    """Return what was loaded as arrays: its step, numbers, progress and number of skipped checkpoints."""
    if loaded is None:
        return mx.array([-1.0]), mx.array([0.0])
    numbers = [a.astype(mx.float32).flatten() for a in (*loaded.params.values(), *loaded.optimizer_state.values())]
    about = mx.array(
        [loaded.step, loaded.progress.get("row", -1), loaded.progress.get("loss", -1), len(loaded.skipped)]
    )
    return about, mx.concatenate(numbers)


def in_folder(run):
    def probe(program):
        with tempfile.TemporaryDirectory() as name:
            return run(program, Path(name) / "run")

    return probe


def names(folder):
    """Return which of the expected files a folder has, and how many others."""
    ends = ("json", "params.safetensors", "optimizer.safetensors")
    wanted = [f"step-{step}.{end}" for step in (900, 950, 1000) for end in ends]
    listed = [file.name for file in folder.iterdir()]
    others = [name for name in listed if name not in wanted]
    return mx.array([*(name in listed for name in wanted), len(others)], mx.float32)


@known.probe()
@in_folder
def checkpoint_round_trip(program, folder):
    save(program, folder, 12)
    return found(program(folder).load_latest())


@known.probe()
@in_folder
def checkpoint_half(program, folder):
    save(program, folder, 3, dtype=mx.bfloat16)
    loaded = program(folder).load_latest()
    return mx.array([a.dtype == mx.bfloat16 for a in loaded.params.values()]), *found(loaded)


@known.probe()
@in_folder
def checkpoint_keeps(program, folder):
    save(program, folder, 900, 950, 1000)
    return names(folder), *found(program(folder).load_latest())


@known.probe()
@in_folder
def checkpoint_keeps_highest(program, folder):
    save(program, folder, 1000, 950, 900)
    return names(folder), *found(program(folder).load_latest())


@known.probe()
@in_folder
def checkpoint_prefixes(program, folder):
    """Step 1 is deleted, and the names of step 10 begin as its names do."""
    save(program, folder, 1, 10, 11)
    return mx.array([len(list(folder.iterdir()))]), *found(program(folder).load_latest())


@known.probe()
@in_folder
def checkpoint_leaves_other_files(program, folder):
    folder.mkdir()
    (folder / "model.safetensors").write_text("of the learner")
    (folder / "step-1.txt").write_text("of the learner")
    save(program, folder, 1, 2, 3)
    return mx.array([(folder / name).exists() for name in ("model.safetensors", "step-1.txt")])


def damaged(damage, *steps):
    """Return a probe that damages the file of the last of two steps."""

    @in_folder
    def probe(program, folder):
        save(program, folder, *(steps or (1, 2)))
        damage(folder)
        return found(program(folder).load_latest())

    return probe


def rewrite(folder):
    file = folder / "step-2.params.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def resize(folder):
    """Say in the manifest that each file has a byte more; the digests stay."""
    file = folder / "step-2.json"
    manifest = json.loads(file.read_text())
    for entry in manifest["files"].values():
        entry["bytes"] += 1
    file.write_text(json.dumps(manifest))


def append(file):
    """Add bytes that a reader of safetensors ignores."""
    file.write_bytes(file.read_bytes() + b"more")


known.probe_table(
    cut_params=damaged(lambda folder: os.truncate(folder / "step-2.params.safetensors", 40)),
    cut_optimizer=damaged(lambda folder: os.truncate(folder / "step-2.optimizer.safetensors", 0)),
    missing=damaged(lambda folder: (folder / "step-2.params.safetensors").unlink()),
    cut_manifest=damaged(lambda folder: os.truncate(folder / "step-2.json", 20)),
    flipped=damaged(rewrite),
    another_size=damaged(resize),
    longer=damaged(lambda folder: append(folder / "step-2.params.safetensors")),
    list_manifest=damaged(lambda folder: (folder / "step-2.json").write_text("[2]")),
)


@known.probe()
@in_folder
def checkpoint_all_damaged(program, folder):
    save(program, folder, 1, 2)
    for step in (1, 2):
        os.truncate(folder / f"step-{step}.params.safetensors", 10)
    return mx.array(refusal(lambda: program(folder).load_latest()))


@known.probe()
@in_folder
def checkpoint_none(program, folder):
    return found(program(folder).load_latest())


@known.probe()
@in_folder
def checkpoint_read_at_once(program, folder):
    """Return whether the arrays are still those that were saved after their files have been emptied."""
    save(program, folder, 1)
    loaded = program(folder).load_latest()
    for file in folder.iterdir():
        os.truncate(file, 0)
    try:  # a lazy array reads whatever is in memory, or raises
        return mx.array(mx.array_equal(loaded.params["w"], arrays(1)[0]["w"]).item(), mx.float32)
    except Exception:
        return mx.array(0.0)


@known.probe()
@in_folder
def checkpoint_manifest(program, folder):
    save(program, folder, 5)
    manifest = json.loads((folder / "step-5.json").read_text())
    sizes = [manifest["files"][f"step-5.{kind}.safetensors"]["bytes"] for kind in ("params", "optimizer")]
    return mx.array([manifest["step"], manifest["progress"]["row"], *sizes])


@known.probe()
@in_folder
def checkpoint_power_cut(program, folder):
    disk = DiskCache()
    with disk.recording():
        save(program, folder, 1, 2)
    has_names = disk.has_names(folder)
    disk.power_cut(folder)
    return mx.array(has_names), *found(program(folder).load_latest())


def crashed(half, steps):
    """Return a probe: the outcome after a crash at each change of the last save, as counts of what is found."""

    def probe(program):
        outcomes = []
        for number in range(60):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name) / "run"
                save(program, folder, *steps[:-1])
                try:
                    with crashing_at(folder, number, half):
                        save(program, folder, steps[-1])
                    break
                except Crash:
                    pass
                try:
                    loaded = program(folder).load_latest()
                    outcomes.append(-1 if loaded is None else loaded.step)
                    if loaded is not None and mx.any(loaded.params["w"] != arrays(loaded.step)[0]["w"]).item():
                        outcomes[-1] = -2
                except Exception:
                    outcomes.append(-3)
                # What a crash leaves is deleted by the next save.
                save(program, folder, 8, 9)
                outcomes[-1] += 100 * sum(not file.name.startswith("step-") for file in folder.iterdir())
        # Programs may make the same changes in another order: lost checkpoints count, and not where they were lost.
        kinds = (-1, -2, -3, *steps[:-2])
        return mx.array([*(any(o == kind for o in outcomes) for kind in kinds), any(o > 50 for o in outcomes)])

    return probe


known.probe_table(
    crash_before=crashed(False, (1, 2)),
    crash_within=crashed(True, (1, 2)),
    crash_at_the_first=crashed(False, (1,)),
    crash_within_the_first=crashed(True, (1,)),
    crash_at_the_third=crashed(False, (1, 2, 3)),
)

PUBLISH = "_sync(temporary)\nos.replace(temporary, self.folder / name)"
known.change(
    "not-compared",
    ("if found != wanted:", "if False:"),
    fact="sizes and digests are stored, but neither is compared",
    question="One bit of a weight has changed on the disk. Who notices?",
)
known.change(
    "digest-alone",
    ("if found != wanted:", 'if found["sha256"] != wanted["sha256"]:'),
    fact="only the files' digests are compared, not their sizes",
    question="A manifest says that a file has 400 bytes, and it has 399. Is the checkpoint whole?",
)
known.change(
    "size-alone",
    ("if found != wanted:", 'if found["bytes"] != wanted["bytes"]:'),
    fact="only the files' sizes are compared, not their digests",
    question="One bit of a weight has changed on the disk. How long is the file now?",
)
known.change(
    "not-synced",
    (PUBLISH, "os.replace(temporary, self.folder / name)"),
    fact="the files are not synced before they are renamed",
    question="Where are a file's bytes when write has returned: on the disk, or in the system's memory?",
)
known.change(
    "folder-not-synced",
    ('if os.name == "posix":', "if False:"),
    fact="the files are synced, but not the folder with their names",
    question="A rename changes neither of the two files. What does it change, and is that on the disk?",
)
known.change(
    "old-deleted-first",
    (
        "self.folder.mkdir(parents=True, exist_ok=True)",
        """self.folder.mkdir(parents=True, exist_ok=True)
for old in self.steps():
    self._delete(f"step-{old}.json")""",
    ),
    fact="older checkpoints are deleted before the new one is complete",
    question="You have deleted the old checkpoint, and the process dies while it writes the new one. What is left?",
)
known.change(
    "keeps-one",
    ("self.steps()[KEPT:]", "self.steps()[1:]"),
    fact="only the newest checkpoint is kept",
    question="The newest checkpoint's file is damaged a day later. What does load_latest return?",
)
known.change(
    "sorted-as-text",
    (
        "return sorted((int(match[1]) for name in names if (match := MANIFEST.fullmatch(name))), reverse=True)",
        """found = [name for name in names if MANIFEST.fullmatch(name)]
return [int(name[5:-5]) for name in sorted(found, reverse=True, key=lambda name: name[5:-5])]""",
    ),
    fact="the steps are sorted as text, in which 950 is after 1000",
    question='Which is larger: 950 or 1000? And "950" or "1000"?',
)  # fmt: skip
known.change(
    "deleted-by-prefix",
    (
        'self._delete(f"step-{old}.{kind}.safetensors")',
        'for file in self.folder.glob(f"step-{old}*"):\n    file.unlink()',
    ),
    fact="every file whose name begins with the old step's number is deleted: those of step 10 with those of step 1",
    question="Which of step-1.json, step-10.json and step-1.txt does your pattern match?",
)
known.change(
    "entries-not-checked",
    ("(OSError, ValueError, KeyError, TypeError, RuntimeError)", "(OSError, ValueError)"),
    fact="a manifest that is JSON without the entries raises an error instead of being skipped",
    question="json.loads has returned a list, or an object without `files`. What does your next line do with it?",
)
known.change(
    "leftovers-stay",
    ('for leftover in self.folder.glob(f"{TEMPORARY}*"):\n    leftover.unlink()', "pass"),
    fact="temporary files of a crashed save are never deleted",
    question="A run crashes once a day while it saves. What is in its folder after a month?",
)
known.change(
    "stops-at-damaged",
    ('skipped.append(f"step-{step}.json: {error}")', "raise ValueError(f'step-{step}.json: {error}') from error"),
    fact="a damaged checkpoint raises an error although an older one is whole",
    question="Why are two checkpoints kept?",
)
known.change(
    "starts-over",
    ('raise ValueError("no checkpoint is whole: " + "; ".join(skipped))', "return None"),
    fact="load_latest returns None if all checkpoints are damaged, as if there were none",
    question="A run of three weeks finds only damaged checkpoints. Should it begin at step 0 without asking?",
)
known.change(
    "read-later",
    ("mx.eval(loaded)", "pass"),
    fact="the loaded arrays are lazy, and read the file only when they are used",
    question="mx.load has returned, and the next save deletes this file. When are its numbers read?",
)
known.change(
    "stored-in-float32",
    ("mx.save_safetensors(str(temporary), arrays)",
     """wide = {k: a if a.dtype == mx.int32 else a.astype(mx.float32) for k, a in arrays.items()}
mx.save_safetensors(str(temporary), wide)"""),
    fact="the arrays are stored in float32, whatever their dtype is",
    question="A bfloat16 parameter goes into a checkpoint. In which dtype does it come out?",
)  # fmt: skip
known.change(
    "written-in-place",
    ('temporary = self.folder / f"{TEMPORARY}{name}"', "temporary = self.folder / name"),
    ('manifest = self.folder / f"{TEMPORARY}step-{step}.json"', 'manifest = self.folder / f"step-{step}.json"'),
    fact="the files have their final names before they are complete",
    question="The process is killed in the middle of a write. Which name does the half file have?",
)
known.change(
    "manifest-first",
    ("self._publish(temporary, name)", "pass"),
    ('self._publish(manifest, f"step-{step}.json")',
     'self._publish(manifest, f"step-{step}.json")\n'
     'for name in files:\n    self._publish(self.folder / f"{TEMPORARY}{name}", name)'),
    fact="the manifest gets its name before the files that it lists",
    question="The process is killed after the first rename. Is the folder's newest checkpoint complete?",
)  # fmt: skip


@known.accepted("digest of the file as it is read")
class Streaming(Checkpoints):
    def save(self, step, params, optimizer_state, progress):
        self.folder.mkdir(parents=True, exist_ok=True)
        for stale in [file for file in self.folder.iterdir() if file.name.startswith("writing-")]:
            stale.unlink()
        super().save(step, params, optimizer_state, progress)

    def load_latest(self):
        steps = [int(p.name[5:-5]) for p in self.folder.glob("step-*.json") if p.name[5:-5].isdigit()]
        problems = []
        for step in sorted(steps, reverse=True):
            try:
                whole = self._load(step)
            except Exception as error:
                problems.append(f"step-{step}.json cannot be used: {error}")
                continue
            return Checkpoint(step, whole.params, whole.optimizer_state, whole.progress, tuple(problems))
        if problems:
            raise ValueError("; ".join(problems))
        return None
