"""Writes reference.json: small scikit-learn models of every kind as model files, inputs, and what scikit-learn answers.

Made by scikit-learn 1.9.1 and numpy 2.4, with the package of `make python`:
target/python/bin/python reference.py > reference.json
"""

import json
import sys

import numpy as np
import sklearn
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import ElasticNet
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from headway.train._export import exported

GAPS = 8
TRAINED, TESTED = 400, 25
random = np.random.default_rng(1)


def streams(count):
    """Send and receive gaps in ns, and what is available in bits per ns."""
    send = random.integers(5_000, 20_000, (count, 1)) * np.linspace(1.2, 0.8, GAPS)
    free = random.uniform(2.0, 9.0, count)
    slower = np.maximum(1.0, 9_038 * 8 / send / free[:, None]) ** 0.5
    receive = send * slower * random.exponential(1.0, send.shape)
    return np.rint(np.hstack([send, receive])).astype(np.int64), free


def features(gaps, kind):
    if kind == "raw":
        return gaps.astype(np.float32)
    spectrum = np.fft.rfft(gaps.astype(np.float64), axis=1)
    if kind == "mag":
        return np.abs(spectrum).astype(np.float32)
    return np.hstack([spectrum.real, spectrum.imag]).astype(np.float32)


def answer(model, x):
    """What the model file should answer: numbers, or the probability of the second class."""
    if isinstance(model, AdaBoostClassifier):
        votes = np.array([one.predict(x) for one in model.estimators_])
        expected = (model.estimator_weights_ @ votes) / model.estimator_weights_.sum()
        assert ((expected > 0.5) == model.predict(x)).all()
        return expected
    return model.predict_proba(x)[:, 1] if hasattr(model, "predict_proba") else model.predict(x)


def case(model, task, kind, unit, x, y, scaled):
    """Trains on the first rows and returns the file with the answers to the last."""
    # Networks compute in the precision of their input; trees round it to single precision themselves.
    x = x.astype(np.float64)
    scaler = StandardScaler().fit(x[:TRAINED]) if scaled else None
    inputs = scaler.transform(x) if scaled else x
    model.fit(inputs[:TRAINED], y[:TRAINED])
    is_stream = task in ("multi-rate", "single-rate")
    rates = 4 if task == "multi-rate" else 1
    shape = {"rates": rates, "packets-per-rate": GAPS // rates, "range": 0.5, "packet-wire-bytes": 9_038}
    source = {"kind": kind, "gaps": GAPS, "unit": unit}
    if not is_stream:
        source = {"kind": kind, "unit": unit, **({"bins": 10} if kind == "histogram" else {"values": 10, "bandwidth": 0.2})}
    file = {
        "format": "headway-model",
        "version": 1,
        "name": type(model).__name__,
        "task": task,
        "input": source,
        "shape": shape if is_stream else None,
        "scaler": {"mean": scaler.mean_.tolist(), "scale": scaler.scale_.tolist()} if scaled else None,
        "model": exported(model),
        "interval": None,
        "domain": None,
        "training": {
            "data-sha256": "",
            "rows": TRAINED,
            "runs": 1,
            "seed": 1,
            "versions": {"scikit-learn": sklearn.__version__},
            "text": "made up",
            "score": {},
        },
    }
    return {"model": file, "answers": answer(model, inputs[TRAINED:]).tolist()}


def main():
    gaps, free = streams(TRAINED + TESTED)
    rate = 9_038 * 8 / gaps[:, :GAPS].mean(axis=1)
    above = (rate > free).astype(int)
    shares = random.dirichlet(np.ones(10), TRAINED + TESTED).astype(np.float32)
    centre = shares @ np.linspace(0.05, 0.95, 10)
    mlp = {"hidden_layer_sizes": (8, 8), "random_state": 1, "max_iter": 300}
    small = {"random_state": 1, "n_estimators": 5}
    regressors = [
        (ElasticNet(alpha=0.01), "fft", True),
        (RandomForestRegressor(max_depth=3, **small), "fft", False),
        (AdaBoostRegressor(DecisionTreeRegressor(max_depth=3), **small), "mag", False),
        (GradientBoostingRegressor(max_depth=3, **small), "fft", False),
        (GradientBoostingRegressor(max_depth=3, loss="quantile", alpha=0.9, **small), "raw", True),
        (MLPRegressor(**mlp), "raw", True),
    ]
    classifiers = [
        (ElasticNet(alpha=0.01), "raw", True),
        (RandomForestClassifier(max_depth=3, **small), "fft", False),
        (AdaBoostClassifier(**small), "fft", False),
        (GradientBoostingClassifier(max_depth=3, **small), "mag", False),
        (MLPClassifier(**mlp), "fft", True),
    ]
    cases = [case(m, "multi-rate", kind, "ns", features(gaps, kind), free, s) for m, kind, s in regressors]
    cases += [case(m, "single-rate", kind, "ns", features(gaps, kind), above, s) for m, kind, s in classifiers]
    good = (np.abs(centre - 0.5) < 0.05).astype(int)
    cases.append(case(MLPClassifier(**mlp), "sabes-nn", "histogram", "capacity", shares, good, False))
    cases.append(case(MLPRegressor(**mlp), "sabes-kde", "density-draws", "gigabit", np.sort(shares), centre, False))
    windows = {"histogram": shares[TRAINED:].tolist(), "density-draws": np.sort(shares)[TRAINED:].tolist()}
    json.dump({"gaps": gaps[TRAINED:].tolist(), "windows": windows, "cases": cases}, sys.stdout, separators=(",", ":"))
    print()


main()
