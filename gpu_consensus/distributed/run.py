"""Run a method over shards: who opens them, who runs the loop, what is let go."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec

from gpu_consensus.backends.availability import why_unavailable
from gpu_consensus.distributed.communicator import Communicator
from gpu_consensus.distributed.crew import Crew, SpmdCrew
from gpu_consensus.distributed.elsewhere import SharedEnsemble
from gpu_consensus.distributed.ranges import plan
from gpu_consensus.distributed.shard import Shard
from gpu_consensus.result import Consensus
from gpu_consensus.util.numbers import shown

P = ParamSpec("P")


def over_shards(
    method: Callable[Concatenate[Any, P], Consensus],
) -> Callable[Concatenate[Any, Any, P], Consensus | None]:
    """Return a method that works on the shards of a communicator or of a Dask client.

    It takes what the method takes, after ``where`` and ``source``.
    """

    def run(
        where: Any, source: Any, /, *given: P.args, **options: P.kwargs
    ) -> Consensus | None:
        own: dict[str, Any] = dict(options)
        wish = own.pop("backend", "auto")
        if not isinstance(wish, str):
            raise TypeError(
                f"backend={shown(wish)} should be a name, which every worker knows."
            )
        limits = {"n_jobs": own.get("n_jobs"), "memory_limit": own.get("memory_limit")}
        own["backend"] = "numpy" if why_unavailable("native") else "native"
        with _at_work(where, source, {"backend": wish, **limits}) as both:
            if both is None:
                return None
            crew, ensemble = both
            result = method(ensemble, *given, **own)
            names = {part[0] for part in crew.gather([("backend_name", [])])}
        return replace(result, backend=", ".join(sorted(names)))

    functools.update_wrapper(run, method)
    signature = inspect.signature(method)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    _, *rest = signature.parameters.values()
    first = [inspect.Parameter(name, kind) for name in ("where", "source")]
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*first, *rest], return_annotation="Consensus | None"
    )
    name = method.__name__
    run.__doc__ = f"""Run :func:`gpu_consensus.{name}` over shards of the objects.

    The labels are those of ``{name}`` in one process with the same options and seed.

    Parameters
    ----------
    where : Communicator or distributed.Client
        The processes of a communicator all make this call; the first returns the
        result, the others None. A Dask client makes it once.
    source : path, sequence of Range, or Ensemble
        The folder of a saved ensemble that every worker reads by this path; or ranges
        of such folders; or, with a communicator, an ensemble that every process has.
    backend : str, default "auto"
        By which the workers compute.

    All other parameters are those of :func:`gpu_consensus.{name}`.
    """
    return run


@contextmanager
def _at_work(
    where: Any, source: Any, options: dict[str, Any]
) -> Iterator[tuple[Crew, SharedEnsemble] | None]:
    """Open the shards; yield what the loop needs, or None where others run it."""
    if all(hasattr(where, name) for name in ("rank", "size", "all_reduce")):
        with _spmd(where, source, options) as both:
            yield both
        return
    if type(where).__module__.split(".")[0] == "distributed":
        from gpu_consensus.distributed.dask_crew import on_dask

        with on_dask(where, source, options) as found:
            yield found
        return
    raise TypeError(
        f"where={shown(where)} should be a distributed.Client, or a Communicator such "
        "as gpu_consensus.distributed.MpiCommunicator()."
    )


@contextmanager
def _spmd(
    comm: Communicator, source: Any, options: dict[str, Any]
) -> Iterator[tuple[Crew, SharedEnsemble] | None]:
    known: list[Any] = []

    def open_shard() -> Shard:
        ranges, like, given = plan(source, comm.size)
        if len(ranges) != comm.size:
            raise ValueError(
                f"source has {len(ranges)} ranges for {comm.size} processes; give one "
                "for each."
            )
        known[:] = [ranges, like]
        return Shard(ranges[comm.rank], given, **options)

    crew = SpmdCrew(comm, open_shard)
    crew.ready()
    if comm.rank != 0:
        crew.serve()
        yield None
        return
    try:
        ensemble = SharedEnsemble(crew, *known)
        yield crew, ensemble
    except BaseException as error:
        crew.end(str(error) or type(error).__name__)
        raise
    ensemble.leave()
    crew.end()
