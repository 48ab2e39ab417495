"""Task 5.4.2, checkpoints: stored and loaded, damaged, and cut off by a crash at every moment."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.crashes import Crash, DiskCache, crashing_at

from tiny_llm.training import checkpoint
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import narrow, sizes


@contextmanager
def a_folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "run"


def arrays(step, dtype=mx.float32, size=6):
    draw = normals(step, dtype)
    params = {"model.layers.0.w": draw(size, 3), "model.norm.weight": draw(size)}
    return params, {"step": mx.array(step, mx.int32), "m.w": draw(size, 3), "v.w": mx.abs(draw(size, 3))}


def progress(step):
    return {"loader": {"epoch": 1, "row": 7 * step}, "log": [{"loss": 1 / 3 + step, "skipped": False}]}


def save(folder, *steps, **options):
    for step in steps:
        checkpoint.Checkpoints(folder).save(step, *arrays(step, **options), progress(step))


def load(folder):
    return checkpoint.Checkpoints(folder).load_latest()


def check(found, step, case, **options):
    """Check that a loaded checkpoint is the one of this step, bit for bit."""
    if found is None:
        fail(Kind.VALUES, "load_latest returned None", case, f"expected  the checkpoint of step {step}")
    fail_if_different("another checkpoint was loaded: its step", step, found.step, case)
    for name, expected, actual in zip(
        ("params", "optimizer_state"), arrays(step, **options), (found.params, found.optimizer_state), strict=True
    ):
        fail_if_different(f"the names in {name}", sorted(expected), sorted(actual), case)
        for key, array in expected.items():
            compare(actual[key], to_float64(array), array.dtype, 0.0, f"{case}: {name}[{key!r}]", array.size)
    fail_if_different("progress", progress(step), found.progress, case)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_checkpoint_round_trip(dtype):
    case = f"{str(dtype).removeprefix('mlx.core.')}, saved at step 12 and loaded, a new folder in a new folder"
    with a_folder() as folder, noted(case):
        save(folder / "first", 12, dtype=dtype)
        check(load(folder / "first"), 12, case, dtype=dtype)


def test_task_2_checkpoint_none_yet():
    with a_folder() as folder, noted("a folder that does not exist"):
        fail_if_different("load_latest", None, load(folder), "a folder that does not exist")
        fail_if_different("steps()", [], checkpoint.Checkpoints(folder).steps(), "a folder that does not exist")
        folder.mkdir()
        fail_if_different("load_latest", None, load(folder), "an empty folder")
        (folder / "notes.txt").write_text("of the learner")
        fail_if_different("load_latest", None, load(folder), "a folder with another file")
        fail_if_different("steps()", [], checkpoint.Checkpoints(folder).steps(), "a folder with another file")


def test_task_2_checkpoint_keeps_two():
    """Steps 900, 950 and 1000: as text, 1000 would come first."""
    case = "saved at steps 900, 950 and 1000"
    with a_folder() as folder, noted(case):
        save(folder, 900, 950, 1000)
        check(load(folder), 1000, case)
        fail_if_different("steps()", [1000, 950], checkpoint.Checkpoints(folder).steps(), case)
        wanted = sorted(
            f"step-{step}.{end}"
            for step in (950, 1000)
            for end in ("json", "optimizer.safetensors", "params.safetensors")
        )
        fail_if_different("the files in the folder", wanted, sorted(each.name for each in folder.iterdir()), case)


def test_task_2_checkpoint_deletes_one_step():
    """Step 1 is deleted, and the names of steps 10 and 11 begin as its names do."""
    case = "saved at steps 1, 10 and 11"
    with a_folder() as folder, noted(case):
        save(folder, 1, 10, 11)
        wanted = sorted(
            f"step-{step}.{end}" for step in (10, 11) for end in ("json", "optimizer.safetensors", "params.safetensors")
        )
        fail_if_different("the files in the folder", wanted, sorted(each.name for each in folder.iterdir()), case)
        check(load(folder), 11, case)


def test_task_2_checkpoint_manifest():
    """The manifest has the step, the progress, and every file's size and SHA-256."""
    case = "saved at step 5"
    with a_folder() as folder, noted(case):
        save(folder, 5)
        manifest = json.loads((folder / "step-5.json").read_text(encoding="utf-8"))
        files = {}
        for kind in ("params", "optimizer"):
            content = (folder / f"step-5.{kind}.safetensors").read_bytes()
            files[f"step-5.{kind}.safetensors"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        fail_if_different("the manifest", {"step": 5, "progress": progress(5), "files": files}, manifest, case)


def test_task_2_checkpoint_leaves_other_files():
    names = ["model.safetensors", "notes.txt", "step-1.txt", "step-9.json.bak", "step-best.json"]
    case = f"a folder with {', '.join(names)}, saved at steps 1, 2 and 3"
    with a_folder() as folder, noted(case):
        folder.mkdir()
        for name in names:
            (folder / name).write_text("of the learner")
        save(folder, 1, 2, 3)
        kept = [name for name in names if (folder / name).exists()]
        fail_if_different("the learner's files that are still there", names, kept, case)
        fail_if_different("steps()", [3, 2], checkpoint.Checkpoints(folder).steps(), case)


DAMAGE = {
    "params cut off": lambda file, folder: os.truncate(folder / "step-2.params.safetensors", 40),
    "optimizer cut off": lambda file, folder: os.truncate(folder / "step-2.optimizer.safetensors", 0),
    "params missing": lambda file, folder: (folder / "step-2.params.safetensors").unlink(),
    "optimizer missing": lambda file, folder: (folder / "step-2.optimizer.safetensors").unlink(),
    "manifest cut off": lambda file, folder: os.truncate(folder / "step-2.json", 30),
    "manifest empty": lambda file, folder: os.truncate(folder / "step-2.json", 0),
    "manifest without files": lambda file, folder: (folder / "step-2.json").write_text('{"step": 2}'),
    "manifest without progress": lambda file, folder: without("progress", folder / "step-2.json"),
    "manifest without step": lambda file, folder: without("step", folder / "step-2.json"),
    "manifest empty, and an empty one of step 3": lambda file, folder: [
        (folder / f"step-{step}.json").write_text("") for step in (2, 3)
    ],
    "manifest with another size": lambda file, folder: resize(folder / "step-2.json"),
    "manifest a list": lambda file, folder: (folder / "step-2.json").write_text("[2]"),
    "one byte changed": lambda file, folder: flip(folder / "step-2.params.safetensors"),
    "bytes appended": lambda file, folder: append(folder / "step-2.params.safetensors"),
    "another file of the same size": lambda file, folder: shutil.copy(
        folder / "step-1.params.safetensors", folder / "step-2.params.safetensors"
    ),
}


def without(entry, file):
    manifest = json.loads(file.read_text(encoding="utf-8"))
    del manifest[entry]
    file.write_text(json.dumps(manifest), encoding="utf-8")


def resize(file):
    """Say that each file has a byte more; the digests stay."""
    manifest = json.loads(file.read_text(encoding="utf-8"))
    for entry in manifest["files"].values():
        entry["bytes"] += 1
    file.write_text(json.dumps(manifest), encoding="utf-8")


def append(file):
    """Add bytes that a reader of safetensors ignores."""
    file.write_bytes(file.read_bytes() + b"more")


def flip(file):
    """Change the last byte, one of a number's."""
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGE)
def test_task_2_checkpoint_skips_damaged(damage):
    """Step 2 is damaged: step 1 is loaded, `skipped` says which was not, and later saves delete both."""
    case = f"steps 1 and 2, of step 2: {damage}"
    with a_folder() as folder, noted(case):
        save(folder, 1, 2)
        DAMAGE[damage](None, folder)
        before = {each.name: each.read_bytes() for each in folder.iterdir()}
        found = load(folder)
        check(found, 1, case)
        names = ["step-3.json"] * (folder / "step-3.json").exists() + ["step-2.json"]
        fail_if_different("the number of messages in skipped", len(names), len(found.skipped), case)
        begins = [message[: len("step-2.json")] for message in found.skipped]
        fail_if_different("the beginnings of the messages in skipped", names, begins, case)
        after = {each.name: each.read_bytes() for each in folder.iterdir()}
        fail_if_different("the files after load_latest", sorted(before), sorted(after), case)
        fail_if_different("steps()", [3, 2, 1][-len(names) - 1 :], checkpoint.Checkpoints(folder).steps(), case)
    later = f"{case}; then saved at steps 3 and 4"
    with a_folder() as folder, noted(later):
        save(folder, 1, 2)
        DAMAGE[damage](None, folder)
        save(folder, 3, 4)
        check(load(folder), 4, later)
        fail_if_different("steps()", [4, 3], checkpoint.Checkpoints(folder).steps(), later)


def test_task_2_checkpoint_damaged_ones_count():
    """Of steps 1, 2 and 3, the two highest are kept, although 2 is damaged."""
    case = "steps 1 and 2, of step 2 the params cut off; then saved at step 3"
    with a_folder() as folder, noted(case):
        save(folder, 1, 2)
        DAMAGE["params cut off"](None, folder)
        save(folder, 3)
        check(load(folder), 3, case)
        fail_if_different("steps()", [3, 2], checkpoint.Checkpoints(folder).steps(), case)


def test_task_2_checkpoint_all_damaged():
    """The error has the messages, in any quotes."""
    case = "steps 1 and 2, both cut off"
    with a_folder() as folder:
        with noted(case):
            save(folder, 1, 2)
            os.truncate(folder / "step-2.params.safetensors", 10)
            (message,) = load(folder).skipped
            os.truncate(folder / "step-1.params.safetensors", 10)
        with raises_value_error(case, "step-1.json", "step-2.json"):
            load(folder)
        told = ""
        try:
            load(folder)
        except ValueError as error:
            told = str(error)
        without_quotes = str.maketrans("", "", "'\"\\")
        if message.translate(without_quotes) not in told.translate(without_quotes):
            lines = (f"expected  ... {message} ...", f"got       {told}")
            fail(Kind.VALUES, "the error lacks a message that skipped had", case, *lines)


def test_task_2_checkpoint_two_objects_of_a_folder():
    """What one saves, the other finds."""
    case = "two objects of a new folder: one saves step 1, the other step 2"
    with a_folder() as folder, noted(case):
        one, other = checkpoint.Checkpoints(folder), checkpoint.Checkpoints(folder)
        for step, (own, its) in enumerate([(one, other), (other, one)], 1):
            own.save(step, *arrays(step), progress(step))
            check(its.load_latest(), step, case)
        fail_if_different("steps()", [2, 1], one.steps(), case)


def test_task_2_checkpoint_arrays_are_read():
    """The loaded arrays do not need the files: a later save deletes them."""
    case = "loaded at step 1, then the folder is deleted"
    with a_folder() as folder, noted(case):
        save(folder, 1)
        found = load(folder)
        for file in folder.iterdir():
            os.truncate(file, 0)
        shutil.rmtree(folder)
        if found is None:
            fail(Kind.VALUES, "load_latest returned None", case, "expected  the checkpoint of step 1")
    # What a lazy array then reads differs from run to run: an error, or whatever is in memory.
    if not is_read(found, 1):
        fail(Kind.VALUES, "the loaded arrays are no longer those that were saved", case)


def is_read(found, step):
    """Return whether the arrays of a checkpoint are those of this step, if their files are gone."""
    try:
        pairs = zip(arrays(step), (found.params, found.optimizer_state), strict=True)
        return all(mx.array_equal(loaded[name], saved[name]).item() for saved, loaded in pairs for name in saved)
    except Exception:
        return False


def test_task_2_checkpoint_same_step_again():
    """A step that is saved twice: the second one counts."""
    case = "steps 1 and 2, then step 2 with other numbers"
    with a_folder() as folder, noted(case):
        save(folder, 1, 2)
        checkpoint.Checkpoints(folder).save(2, {"w": mx.array([5.0])}, {"step": mx.array(3)}, {"log": []})
        found = load(folder)
        compare(found.params["w"], to_float64(mx.array([5.0])), mx.float32, 0.0, f"{case}: params", 1)
        fail_if_different("progress", {"log": []}, found.progress, case)


def crashes(steps, half):
    """Save one more step, crash at each of its changes in turn, and yield the folder as it is found afterwards."""
    for number in range(60):
        with a_folder() as folder:
            save(folder, *steps[:-1])
            try:
                with crashing_at(folder, number, half):
                    save(folder, steps[-1])
                return
            except Crash:
                yield number, folder
    fail(Kind.VALUES, "save makes more than 60 changes in the folder", f"saved at steps {steps}")


@pytest.mark.parametrize("half", [False, True], ids=["before a change", "within a file"])
@pytest.mark.parametrize("steps", [(1, 2), (1, 2, 3)], ids=["second checkpoint", "third checkpoint"])
def test_task_2_checkpoint_crash_at_any_change(steps, half):
    """A crash before each change of the folder in turn: one of the last two checkpoints is loaded, and is whole."""
    count = 0
    for number, folder in crashes(steps, half):
        count += 1
        case = f"saved at steps {steps}, crash at change {number + 1} of the last save" + half * ", its file incomplete"
        with noted(case):
            found = load(folder)
            check(found, steps[-1] if found is not None and found.step == steps[-1] else steps[-2], case)
            missing = [
                name
                for step in checkpoint.Checkpoints(folder).steps()
                for name in (f"step-{step}.params.safetensors", f"step-{step}.optimizer.safetensors")
                if not (folder / name).exists()
            ]
        fail_if_different("files that are missing, though their manifest exists", [], missing, case)
        fail_if_different("checkpoints with a manifest that are damaged", [], list(found.skipped), case)
    if count < 4:
        fail(
            Kind.VALUES, f"save makes only {count} changes: each file needs a name for writing and a rename", f"{steps}"
        )


@pytest.mark.parametrize("half", [False, True], ids=["before a change", "within a file"])
def test_task_2_checkpoint_saves_after_a_crash(half):
    """The next save works, and deletes what the crash left."""
    for number, folder in crashes((1, 2), half):
        case = f"saved at steps 1 and 2, crash at change {number + 1} of the second save, then saved at steps 3 and 4"
        with noted(case):
            save(folder, 3, 4)
            check(load(folder), 4, case)
            names = sorted(each.name for each in folder.iterdir())
        wanted = sorted(
            f"step-{step}.{end}" for step in (3, 4) for end in ("json", "optimizer.safetensors", "params.safetensors")
        )
        extra = [name for name in names if name not in wanted and not name.startswith(("step-1.", "step-2."))]
        fail_if_different("files that no checkpoint needs", [], extra, case)


def test_task_2_checkpoint_survives_a_power_cut():
    """Once save has returned, the disk has the files: what was not synced by os.fsync is lost."""
    case = "saved at steps 1 and 2, then the power is cut"
    with a_folder() as folder, noted(case):
        disk = DiskCache()
        with disk.recording():
            save(folder, 1, 2)
        disk.power_cut(folder)
        check(load(folder), 2, case)
        if os.name == "posix" and not disk.has_names(folder):
            fail(Kind.VALUES, "the folder is not synced after the last rename: the disk may have the old names", case)


CHILD = """
import sys
import mlx.core as mx
from pathlib import Path
from tiny_llm.training.checkpoint import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]))
for step in range(int(sys.argv[2]), 1000000):
    arrays = {"w": mx.full(2**17, step)}
    checkpoints.save(step, arrays, {"m": arrays["w"] + 1}, {"step": step})
    print(step, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="not run here: needs SIGKILL")
def test_task_2_checkpoint_killed():
    """A process that saves all the time is killed twice, and no saved step is lost."""
    case = "arrays of 1 MB, saved in a loop, and the process killed"
    with a_folder() as folder, noted(case):
        save(folder, 1)
        first = 1
        for wait in (0.01, 0.037):
            package = str(Path(checkpoint.__file__).parents[2])
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *filter(None, sys.path)])}
            command = [sys.executable, "-c", CHILD, str(folder), str(first + 1)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
                assert process.stdout
                told = [int(process.stdout.readline() or 0)]
                time.sleep(wait)
                process.send_signal(signal.SIGKILL)
                with suppress(ValueError):
                    told += [int(line) for line in process.stdout.read().splitlines() if line.strip()]
            found = load(folder)
            if found is None or found.step < max(told):
                got = f"got       {found and found.step}"
                fail(Kind.VALUES, "a saved checkpoint is lost", case, f"expected  step {max(told)} or later", got)
            whole = mx.all(found.params["w"] == found.step) & mx.all(found.optimizer_state["m"] == found.step + 1)
            if not whole.item():
                fail(Kind.VALUES, f"the checkpoint of step {found.step} has numbers of another step", case)
            first = found.step


def test_task_2_checkpoint_sweep():
    for n in [*sizes(P=20, S=1100), *narrow(P=20, S=1100)]:
        case = f"{n.P} arrays of {n.S} numbers, {str(n.dtype).removeprefix('mlx.core.')}, seed {n.seed}"
        draw = normals(n.seed, n.dtype)
        params = {f"model.layers.{i}.weight": draw(n.S) for i in range(min(n.P, 6))}
        with a_folder() as folder, noted(case):
            checkpoint.Checkpoints(folder).save(n.seed, params, {"step": mx.array(n.seed)}, {"seed": n.seed})
            found = checkpoint.Checkpoints(folder).load_latest()
        fail_if_different("the names in params", sorted(params), sorted(found.params), case)
        for name, array in params.items():
            compare(found.params[name], to_float64(array), n.dtype, 0.0, f"{case}: {name}", array.size)


@property_test
@given(steps=st.lists(st.integers(0, 2000), min_size=1, max_size=4, unique=True))
def test_task_2_checkpoint_highest_step(steps):
    """In whatever order they were saved, the two highest steps are kept."""
    case = f"saved at steps {steps}"
    with a_folder() as folder, noted(case):
        save(folder, *steps, size=2)
        fail_if_different("steps()", sorted(steps)[::-1][:2], checkpoint.Checkpoints(folder).steps(), case)
