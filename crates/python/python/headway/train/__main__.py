"""``python -m headway.train``: trains models and writes their files."""

from __future__ import annotations

import argparse
import ast
import json
import sys
from pathlib import Path
from typing import Any

from headway.train._data import read_streams, read_windows
from headway.train._features import KINDS
from headway.train._features import UNITS as TIME_UNITS
from headway.train._streams import INTERVALS, TUNES, streams
from headway.train._streams import MODELS as STREAM_MODELS
from headway.train._trained import Trained
from headway.train._windows import INPUTS, windows
from headway.train._windows import MODELS as WINDOW_MODELS
from headway.train._windows import UNITS as RATE_UNITS


def main(arguments: list[str] | None = None) -> int:
    """Trains what the command line says; returns the exit code."""
    args = _parser().parse_args(arguments)
    try:
        trained = _train(args)
    except (OSError, ValueError) as error:
        print(f"headway.train: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps({name: one.scores for name, one in trained.items()}, indent=1))
    else:
        for name, one in trained.items():
            print(f"{name}: " + ", ".join(f"{what} {number:.4g}" for what, number in one.scores.items()))
    return 0


def _train(args: argparse.Namespace) -> dict[str, Trained]:
    trained: dict[str, Trained] = {}
    data: Any = read_streams(args.tables) if args.data == "streams" else read_windows(args.tables)
    args.output.mkdir(parents=True, exist_ok=True)
    for model in args.model or [_first(args.data)]:
        if args.data == "streams":
            chosen = {"features": args.features, "unit": args.unit, "tune": args.tune, "interval": args.interval}
            one = streams(data, model, **chosen, parameters=dict(args.parameter), seed=args.seed)
        else:
            one = windows(data, model, input=args.input, unit=args.unit, balanced=args.balanced, seed=args.seed)
        if one.document:
            one.save(args.output / f"{model}.json")
        trained[model] = one
    return trained


def _first(data: str) -> str:
    return "gradient-boosting" if data == "streams" else "nn"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m headway.train", description="Trains estimators on tables of `headway dataset`.")
    kinds = parser.add_subparsers(dest="data", required=True, metavar="{streams,windows}")
    one = kinds.add_parser("streams", help="models of p-streams, or of streams of one rate")
    _common(one, STREAM_MODELS)
    one.add_argument("--features", choices=KINDS, default="fft", help="what is computed of the gaps [default: fft]")
    one.add_argument("--unit", choices=TIME_UNITS, default="ns", help="unit of the gaps; for paths of any capacity send-gaps, or packet-times of the capacity [default: ns]")
    one.add_argument("--tune", choices=TUNES, default="none", help="search parameters by 5-fold cross-validation over runs [default: none]")
    one.add_argument("--interval", choices=INTERVALS, default="residual", help="how 90 %% intervals are made [default: residual]")
    one.add_argument("--parameter", action="append", default=[], type=_parameter, metavar="NAME=VALUE", help="a parameter of the class of scikit-learn, such as n_estimators=200; may be repeated")
    other = kinds.add_parser("windows", help="models of windows of SABES")
    _common(other, WINDOW_MODELS)
    other.add_argument("--input", choices=INPUTS, default="draws", help="what a kde model sees of a density [default: draws]")
    other.add_argument("--unit", choices=RATE_UNITS, default="gigabit", help="unit of the samples of a kde model [default: gigabit]")
    other.add_argument("--balanced", action="store_true", help="let good and bad windows count the same when nn is trained")
    return parser


def _parameter(text: str) -> tuple[str, Any]:
    """A name and a number or a text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("must be NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def _common(parser: argparse.ArgumentParser, models: tuple[str, ...]) -> None:
    parser.add_argument("tables", nargs="+", type=Path, metavar="TABLE", help="tables of `headway dataset`, CSV or Parquet")
    parser.add_argument("--model", action="append", choices=models, help="what to train; may be repeated")
    parser.add_argument("--output", type=Path, default=Path(), metavar="DIR", help="folder for the model files [default: .]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training [default: 1]")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")


if __name__ == "__main__":
    sys.exit(main())
