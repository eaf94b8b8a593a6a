"""Trains estimators on streams and windows of which the truth is known, and writes them as model files.

``headway dataset`` makes the data; ``headway measure``, ``headway estimate`` and ``headway passive`` read the model files::

    data = headway.train.read_streams("streams.csv")
    trained = headway.train.streams(data, "gradient-boosting")
    print(trained.scores)
    trained.save("model.json")

It needs scikit-learn and pandas: ``pip install 'headway[train]'``. The same data, options and seed give the same numbers
on one machine. ``Trained.estimator`` is what scikit-learn made, for whoever wants to convert it to another format.
"""

from headway.train._data import Streams, Windows, read_streams, read_windows
from headway.train._streams import MODELS as STREAM_MODELS
from headway.train._streams import streams
from headway.train._trained import Trained
from headway.train._windows import MODELS as WINDOW_MODELS
from headway.train._windows import hidden_bound, windows

__all__ = [
    "STREAM_MODELS",
    "WINDOW_MODELS",
    "Streams",
    "Trained",
    "Windows",
    "hidden_bound",
    "read_streams",
    "read_windows",
    "streams",
    "windows",
]
