"""Models of scikit-learn as parts of a model file (docs/learned.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import ElasticNet
from sklearn.neural_network import MLPClassifier, MLPRegressor

Part = dict[str, Any]


def exported(model: Any) -> Part:
    """The part ``model`` of a model file: the answer to features that are scaled already."""
    if isinstance(model, ElasticNet):
        return {"type": "linear", "coefficients": model.coef_.tolist(), "intercept": float(model.intercept_)}
    if isinstance(model, MLPClassifier | MLPRegressor):
        return _network(model)
    return _trees(model)


def _network(model: MLPClassifier | MLPRegressor) -> Part:
    layers = []
    for number, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_)):
        is_last = number == len(model.coefs_) - 1
        activation = model.out_activation_ if is_last else model.activation
        layers.append({"weights": weights.T.tolist(), "bias": bias.tolist(), "activation": activation})
    return {"type": "network", "layers": layers}


def _trees(model: Any) -> Part:
    part: Part = {"type": "trees", "base": 0.0, "link": "identity"}
    if isinstance(model, GradientBoostingRegressor | GradientBoostingClassifier):
        classifies = isinstance(model, GradientBoostingClassifier)
        part["combine"] = "sum"
        part["base"] = _log_odds(model.init_.class_prior_) if classifies else float(model.init_.constant_[0, 0])
        part["link"] = "logistic" if classifies else "identity"
        part["trees"] = [_tree(one, model.learning_rate, _value) for one in model.estimators_[:, 0]]
        return part
    if isinstance(model, AdaBoostRegressor | AdaBoostClassifier):
        classifies = isinstance(model, AdaBoostClassifier)
        part["combine"] = "weighted-vote" if classifies else "weighted-median"
        value = _share if classifies else _value
        pairs = zip(model.estimators_, model.estimator_weights_)
        part["trees"] = [_tree(one, weight, value) for one, weight in pairs]
        return part
    part["combine"] = "mean"
    value = _share if isinstance(model, RandomForestClassifier) else _value
    part["trees"] = [_tree(one, 1.0, value) for one in model.estimators_]
    return part


def _log_odds(shares: Any) -> float:
    return float(np.log(shares[1] / shares[0]))


def _value(node: Any) -> float:
    return float(node[0, 0])


def _share(node: Any) -> float:
    """The share of the second class."""
    return float(node[0, 1] / node[0].sum())


def _tree(estimator: Any, weight: float, value: Callable[[Any], float]) -> Part:
    """A tree as flat arrays; scikit-learn puts children behind their parents."""
    tree = estimator.tree_
    leaf = tree.children_left < 0
    return {
        "weight": float(weight),
        "feature": np.where(leaf, -1, tree.feature).tolist(),
        "threshold": np.where(leaf, 0.0, tree.threshold).tolist(),
        "left": tree.children_left.tolist(),
        "right": tree.children_right.tolist(),
        "value": [value(node) for node in tree.value],
    }
