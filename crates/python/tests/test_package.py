"""The package as a whole."""

from __future__ import annotations

import importlib.metadata
import tomllib

from conftest import REPOSITORY

import headway


def test_the_version_is_that_of_the_package() -> None:
    workspace = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())
    assert headway.__version__ == workspace["workspace"]["package"]["version"]
    # The tests of the workspace load the library without a wheel, whose metadata has the version.
    wheels = [found.version for found in importlib.metadata.distributions() if found.name == "headway"]
    assert all(version == headway.__version__ for version in wheels)
