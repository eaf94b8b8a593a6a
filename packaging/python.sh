#!/bin/sh
# The Python package in an environment of its own, target/python, and its tests:
#   python.sh environment      makes the environment, with what the tests need
#   python.sh wheel            builds the wheel into target/wheels
#   python.sh install          installs that wheel
#   python.sh place LIBRARY    installs the package with this native library instead, which saves building a wheel
#   python.sh test             compares stubs and types, runs the tests and the notebooks
set -eu
cd "$(dirname "$0")/.."

package=crates/python
environment=target/python
bin=$PWD/$environment/bin
wheels=target/wheels

environment() {
    # What an earlier run installed is the same if the list is.
    if cmp -s $package/requirements.txt $environment/requirements.txt; then return; fi
    python3 -m venv --clear $environment
    # Without bytecode, of which the tests need only some.
    "$bin/pip" install --quiet --disable-pip-version-check --retries 1 --no-compile --requirement $package/requirements.txt
    cp $package/requirements.txt $environment/requirements.txt
}

wheel() {
    rm -rf $wheels
    "$bin/maturin" build --quiet --release --locked --manifest-path $package/Cargo.toml --out $wheels
    echo "wheel: $(echo $wheels/*.whl)"
}

install() {
    "$bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall $wheels/*.whl
}

place() {
    packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
    rm -rf "$packages"/headway "$packages"/headway-*.dist-info
    cp -R $package/python/headway "$packages"/headway
    cp "$1" "$packages"/headway/_headway.abi3.so
}

# The program is there if the tests of the workspace were built. Nothing is written outside of the environment.
test() {
    export PATH="$PWD/target/debug:$PATH" PYTHONPYCACHEPREFIX="$PWD/$environment/bytecode"
    export MYPY_CACHE_DIR="$PWD/$environment/mypy" MPLCONFIGDIR="$PWD/$environment/matplotlib"
    export IPYTHONDIR="$PWD/$environment/ipython" JUPYTER_CONFIG_DIR="$PWD/$environment/jupyter"
    types &
    types=$!
    status=0
    "$bin/python" -m pytest -rs --config-file $package/pyproject.toml $package/tests --nbmake examples/*.ipynb || status=$?
    wait $types || status=$?
    exit $status
}

types() {
    "$bin/python" -m mypy --config-file $package/pyproject.toml --package headway
    "$bin/python" -m mypy.stubtest --mypy-config-file $package/pyproject.toml headway._headway
}

"$@"
