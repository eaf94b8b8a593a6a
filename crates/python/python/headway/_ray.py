"""Cells of a sweep as tasks of Ray, which sends them to the nodes of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any

from headway import _headway
from headway._headway import RunError
from headway._scenario import program

if TYPE_CHECKING:
    from ray import ObjectRef

# How often a cell runs again whose node or process was lost. A cell that takes its node down each time must not go on
# for ever.
_RETRIES = 5
# Cells that wait at each processor, so that it never waits for this process.
_AHEAD = 3
# The time in which others may end, too, while the results of some are taken: seconds.
_PAUSE = 0.0

_found = ""


def run(
    sweep: _headway.Sweep,
    jobs: int | None,
    memory_bytes: int | None,
    helper: str | PathLike[str] | None,
    ended: Callable[[int], None],
) -> None:
    """Run the cells that have no result, and take what comes back."""
    ray = _imported()
    if not ray.is_initialized():
        # A cluster that begins here tells nobody that it is used.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(log_to_driver=False)
    # A task ends with what it returns; only lost nodes and processes are worth another attempt.
    task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run_job)
    missing = iter(sweep.missing())
    needs_program = sweep.world != "sim"
    waiting: dict[ObjectRef[Any], int] = {}
    try:
        while True:
            limit = jobs or int(_AHEAD * max(1, ray.cluster_resources().get("CPU", 1)))
            while len(waiting) < limit and (number := next(missing, None)) is not None:
                waiting[task.remote(sweep.job(number), sweep.build, memory_bytes, helper, needs_program)] = number
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1)
            ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=_PAUSE)
            for reference in ready:
                number = waiting.pop(reference)
                sweep.ended(number, *_result(ray, reference))
                ended(number)
    finally:
        for reference in waiting:
            ray.cancel(reference)


def _result(ray: Any, reference: ObjectRef[Any]) -> tuple[str | None, str | None]:
    """Return the record of a cell, or why there is none."""
    try:
        result: tuple[str | None, str | None] = ray.get(reference)
    except ray.exceptions.RayError as error:
        return None, f"Ray lost the cell: {str(error).splitlines()[0]}"
    return result


def _run_job(
    job: str, build: str, memory_bytes: int | None, helper: str | PathLike[str] | None, needs_program: bool
) -> tuple[str | None, str | None]:
    """Run a cell on a node; return its record, or why it failed."""
    here = _here()
    if here != build:
        return None, f"a node has another build of headway: {here} instead of {build}"
    try:
        if helper is None and needs_program:
            helper = program()
        return _headway.run_job(job, memory_bytes, os.cpu_count() or 1, helper), None
    except _headway.HeadwayError as error:
        return None, str(error)


def _here() -> str:
    """Return the build on this node, which a process looks for once."""
    global _found
    _found = _found or _headway.build(_headway.__file__)
    return _found


def _imported() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as reason:
        raise RunError("backend: the package ray is not installed: pip install headway[ray]") from reason
    return ray
