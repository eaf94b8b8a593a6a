"""Available bandwidth from numpy arrays, and simulated networks.

Rates are in bits per second and count the bytes on an Ethernet wire (IP packet + 38) unless a name says otherwise;
times are whole nanoseconds. Names say so: ``_bps``, ``_ns``, ``_us``, ``_wire_bytes``, ``_ip_bytes``.
"""

from headway._denoise import Gaps, bass, normalise
from headway._estimate import METHODS, VERDICTS, Estimates, estimate
from headway._headway import HeadwayError, RunError, ScenarioError, __version__
from headway._model import Model
from headway._pairs import hire, ppdd
from headway._passive import Passive, sabes
from headway._scenario import Results, Scenario
from headway._streams import LOST, Streams
from headway._sweep import Cells, sweep
from headway._table import Table

__all__ = [
    "LOST",
    "METHODS",
    "VERDICTS",
    "Cells",
    "Estimates",
    "Gaps",
    "HeadwayError",
    "Model",
    "Passive",
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Streams",
    "Table",
    "__version__",
    "bass",
    "estimate",
    "hire",
    "normalise",
    "ppdd",
    "sabes",
    "sweep",
]
