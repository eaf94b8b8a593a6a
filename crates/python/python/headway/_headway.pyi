"""The native part of the package, which its modules call with checked arguments."""

from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "HeadwayError",
    "RunError",
    "Scenario",
    "ScenarioError",
    "bass",
    "estimate",
    "estimators",
    "hire",
    "normalise",
    "ppdd",
    "read_scenario",
    "read_streams",
    "sabes",
]

class HeadwayError(ValueError): ...
class ScenarioError(HeadwayError): ...
class RunError(HeadwayError): ...

def bass(
    send_gap_ns: NDArray[np.int64],
    receive_gap_ns: NDArray[np.int64],
    offsets: NDArray[np.int64],
    packet_wire_bytes: int,
    capacity_bps: float,
    window: int,
) -> dict[str, NDArray[Any]]: ...
def normalise(send_gap_ns: NDArray[np.int64], stamp_us: NDArray[np.int64], packets: int) -> dict[str, NDArray[Any]]: ...
def estimators() -> tuple[list[str], list[str]]: ...
def estimate(streams: dict[str, Any], method: str, denoise: str, capacity_bps: float) -> tuple[dict[str, Any], str]: ...
def ppdd(pairs: dict[str, Any], filter: str) -> dict[str, Any]: ...
def hire(trains: dict[str, Any], ttl: NDArray[np.int64], narrow_bps: float, hops: int) -> tuple[int, float]: ...
def sabes(
    segments: dict[str, NDArray[np.int64]], settings: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]: ...
def read_streams(path: str | PathLike[str], packet_wire_bytes: int | None) -> dict[str, Any]: ...
def read_scenario(path: str | PathLike[str]) -> str: ...

@final
class Scenario:
    def __new__(cls, text: str, path: str | PathLike[str], changes: list[str], dilation: int) -> Scenario: ...
    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    def run(
        self, world: str, seeds: list[int], jobs: int, helper: str | PathLike[str] | None
    ) -> list[dict[str, Any]]: ...
