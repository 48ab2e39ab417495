"""Run a command on several ranks, and return what they printed."""

from collections.abc import Mapping, Sequence

from .processes import Ranks


def launch(
    command: Sequence[str],
    ranks: int,
    *,
    timeout: float | None = 60.0,
    environment: Mapping[str, str] | None = None,
    backend: str = "ring",
) -> list[str]:
    """Run a command on ranks of this machine until all have ended, and return what each printed to standard output.

        launch([sys.executable, "work.py"], 2)  # ["from rank 0\\n", "from rank 1\\n"]

    Args:
        command: the program of all ranks, with its arguments.
        ranks: how many.
        timeout: seconds without a call to a group by any rank, after which ranks that wait are ended; None: no limit.
        environment: variables beside those of this process, such as PYTHONPATH.
        backend: `ring`, `mpi` or `any`, as in `Ranks`.

    Raises:
        RanksFailed: a rank died or the ranks hang. The message says which, what each of the others waited for, and has
            the last lines of the failed rank's errors.
        UsageError: the backend is mpi, and there is no mpirun.
    """
    with Ranks(command, ranks, timeout=timeout, environment=environment, backend=backend, keep=True) as running:
        running.wait()
    return running.outputs
