"""What a rank finds in its environment: its number, how to reach the others, and how many threads it may use."""

import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..course.registry import UsageError
from ..paths import LEARNER

RANK_FILE = "TINY_LLM_RANK_FILE"  # as in solutions/tiny_llm/distributed/group.py
# MLX's own OpenMP and BLAS libraries; each would otherwise start a thread per core in every rank.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
BACKENDS = ("ring", "mpi", "any")


def chosen(backend: str) -> str:
    """Return `ring` or `mpi`: `any` is the ring, which is in every build of MLX. Raise UsageError without mpirun."""
    if backend == "mpi" and shutil.which("mpirun") is None:
        raise UsageError("There is no mpirun on the PATH. To install MPI on Debian:", "sudo apt install openmpi-bin")
    return "mpi" if backend == "mpi" else "ring"


def environments(ranks: int, folder: Path, backend: str, more: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """Return what each rank's environment has beside this process's.

    Args:
        ranks: how many.
        folder: gets the file of the ring's addresses and, for each rank, the file in which it keeps what it waits for.
        backend: `ring` or `mpi`.
        more: what the caller adds; it takes precedence.
    """
    path = [str(LEARNER.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    shared = {"PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}
    shared |= {name: str(len(cores_of(0, ranks))) for name in THREADS if name not in os.environ}
    if backend == "ring" and ranks > 1:
        hosts = folder / "hosts.json"
        hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(ranks)]), encoding="utf-8")
        shared["MLX_HOSTFILE"] = str(hosts)
    if backend == "mpi" and sys.platform == "linux":
        shared["MLX_MPI_LIBNAME"] = os.environ.get("MLX_MPI_LIBNAME", "libmpi.so.40")
    made = []
    for rank in range(ranks):
        rank_file(folder, rank).touch()
        own = {"MLX_RANK": str(rank)} if "MLX_HOSTFILE" in shared else {}
        made.append({**shared, **own, RANK_FILE: str(rank_file(folder, rank)), **(more or {})})
    return made


def rank_file(folder: Path, rank: int) -> Path:
    """Return the file in which a rank keeps what it waits for."""
    return folder / f"rank{rank}"


def free_ports(count: int) -> list[int]:
    """Return free TCP ports of 127.0.0.1, all different."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def cores_of(rank: int, ranks: int) -> Sequence[int]:
    """Return the cores of a rank: an equal share of this process's, or all of them if there are fewer than ranks."""
    known = sys.platform == "linux"
    cores = sorted(os.sched_getaffinity(0)) if known else list(range(os.cpu_count() or 1))
    share = len(cores) // ranks
    return cores[rank * share : (rank + 1) * share] if share else cores[:1]


@contextmanager
def on_cores_of(rank: int, ranks: int) -> Iterator[None]:
    """Let processes that are started here run on this rank's cores only, where the system (Linux) can do that.

    The thread pool of the course's kernels and OpenBLAS then start as many threads as the rank has cores.
    """
    if sys.platform != "linux" or ranks > len(before := os.sched_getaffinity(0)):
        yield
        return
    os.sched_setaffinity(0, cores_of(rank, ranks))  # of this thread; a child inherits it
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
