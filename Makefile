# Start with `make demo` and `make test`, which work on a fresh Debian 12 machine with Rust. Each target first checks
# for the packages that it needs; as root it installs them.

CARGO ?= cargo
RUSTFMT ?= rustfmt --edition 2024
REPORT ?= report
NEED = @CARGO=$(CARGO) packaging/need.sh
# The ns-3 that the benchmark installs, and where.
NS3_VENV = target/ns3
NS3_VERSION = 3.44.post0
# The programs that users install. Each is a Debian package; their crates in the same order.
PROGRAMS = headway headway-router headway-lab
PROGRAM_PACKAGES = -p headway -p headway-cli-router -p headway-cli-lab
UNITS = headway-serve.service headway-cc@.service headway-edge.service headway-select.service
# The compiler of the workspace with its lints, and without what would only save time if something were compiled again.
LINTED = RUSTC_WORKSPACE_WRAPPER=clippy-driver CARGO_INCREMENTAL=0
# The Python that `make python` makes.
PYTHON = target/python/bin/python
# cargo-deb makes Debian packages, and cargo-cyclonedx lists what is in the program; the target deb installs both below
# target/.
CARGO_DEB_VERSION = 3.8.0
CARGO_DEB = target/tools/bin/cargo-deb
CARGO_CYCLONEDX_VERSION = 0.5.9
CARGO_CYCLONEDX = target/tools/bin/cargo-cyclonedx
# Packages and static programs are for this machine, or with ARCH=amd64 or ARCH=arm64 for such a one: then Debian's compiler for it links
# them, and their folder has its name.
TARGET_amd64 = x86_64-unknown-linux-gnu
TARGET_arm64 = aarch64-unknown-linux-gnu
TARGET = $(or $(if $(ARCH),$(TARGET_$(ARCH)),$(shell $(CARGO) -vV | sed -n 's/^host: //p')),$(error ARCH must be amd64 or arm64))
GNU = $(if $(ARCH),$(subst -unknown,,$(TARGET))-)
FOR_TARGET = --target $(TARGET) $(if $(ARCH),--config 'target.$(TARGET).linker="$(GNU)gcc"')
NEED_TARGET = $(ARCH:%=for-%)
DEBIAN = target/debian$(ARCH:%=-%)
STATIC = target/static$(ARCH:%=-%)
# A static C library cannot look for `getrandom` when the program runs, which the crate of that name does to support older kernels. Addresses
# that depend on where the program is are packed, where the linker can: 0.3 MB less.
ALL_IN_ONE = --config 'target.$(TARGET).rustflags=["-Ctarget-feature=+crt-static", "--cfg=getrandom_backend=\"linux_getrandom\"", \
	"-Clink-arg=-Wl,-z,pack-relative-relocs"]'
# Compares the simulator with the Linux stack in virtual time in some cells of the matrix; fails if too few agree.
QUICK_COMPARISON = target/debug/headway-bench compare scenarios/compare.toml --on sim,uml --quick --check

# What `make kernels` boots, and the newest build of the test that loads all programs of BPF.
KERNELS ?= 6.1 6.12
BUILT = target$(if $(ARCH),/$(TARGET))
VERIFIER = $$(ls -t $(BUILT)/debug/deps/verifier-* | grep -v '\.d$$' | head -1)

# The targets of `make fuzz` are no part of the workspace, so `cargo fmt` does not find them.
UNDECLARED = fuzz/fuzz_targets/*.rs

.PHONY: help demo test test-kernel test-environment test-python test-kernels test-comparison test-doc format lint bench accuracy compare repro hostile fuzz uml kernels browser install deb deb-test container container-test static static-test python wheel clean setup

help:
	@echo 'make demo       measure an emulated path with every method; writes $(REPORT)/report.html'
	@echo 'make test       formatting, lints and all tests, those in a Linux kernel included where one can be built'
	@echo 'make bench      speed of the estimators and of the simulator, beside ns-3 where it installs, and from Python; CPU use of idle programs'
	@echo 'make accuracy   the accuracy tables on emulated and on simulated paths (about 30 minutes)'
	@echo 'make compare    the simulator beside the TCP of this host, 24 cells (about 15 minutes)'
	@echo 'make repro      published experiments in a simulated testbed (a minute or two); writes $(REPORT)/repro'
	@echo 'make hostile    every attack on headway serve at once, beside honest clients, for MINUTES=60 (root only)'
	@echo 'make fuzz       made-up input for everything that reads bytes from outside, MINUTES=1 for each parser (nightly Rust)'
	@echo 'make uml        the Linux kernel for stacks in virtual time (about 5 minutes once), kept in ~/.cache/headway'
	@echo 'make kernels    commands on other kernels, in an emulated machine each: KERNELS="6.1 6.12" (root; 4 minutes each)'
	@echo 'make browser    the page of headway edge in headless Chromium (needs chromium and npm)'
	@echo 'make python     the Python package as a wheel in an environment of its own, with its tests; make wheel only builds it'
	@echo 'make install    headway, headway-router and headway-lab, man pages, shell completions, systemd units and trained models, below PREFIX (/usr/local)'
	@echo 'make deb        a Debian package of each program, with one of its debug symbols, and one of all, in target/debian; make deb-test tries them'
	@echo 'make static     the same programs with all libraries in them, in target/static; make static-test tries them'
	@echo 'ARCH=arm64      for deb, static, static-test and kernels: for such a machine, in target/debian-arm64, target/static-arm64; also amd64'
	@echo 'make container  an image of headway and headway-router for podman; make container-test runs it (root only)'

demo:
	$(NEED) rust ip
	$(CARGO) build --profile demo --locked --no-default-features -p headway-cli-lab --bin headway-lab
	target/demo/headway-lab demo --output $(REPORT)

# The tests are compiled first, and the programs with them: by themselves they would be compiled with other features of their
# dependencies, and so twice. `clippy-driver` is rustc with lints, so that nothing is compiled once more for those. The
# kernel is built then. The tests run alone, because some of them run in real time; what follows does not, and two of it run
# at a time. If the kernel cannot be built, the tests that need it say so and pass.
test:
	$(NEED) rust ip bpf kernel
	$(MAKE) format
	$(LINTED) $(CARGO) test --workspace --all-targets --locked --no-run
	$(MAKE) --jobs=2 test-kernel test-environment
	$(LINTED) $(CARGO) test --workspace --tests --locked
	packaging/openwrt/test.sh target/debug/headway-router
	$(MAKE) --jobs=2 --output-sync=target test-kernels test-comparison test-python test-doc

# MAKEFLAGS is cleared so that neither of the two shares the job slots of this make: each uses all processors.
test-kernel:
	-@MAKEFLAGS= target/debug/headway-lab uml build

test-environment:
	-@packaging/python.sh environment

# With the library that was compiled with the tests.
test-python:
	@if packaging/python.sh environment; \
	then packaging/python.sh place target/debug/deps/libheadway_python.so && packaging/python.sh test; \
	else echo 'SKIPPED the Python package: Python or its registry of packages does not answer.'; fi

# The edge on a kernel that has no TCX. Passes where that cannot be tried, and says why.
test-kernels:
	-@$(NEED) kernels
	bench/kernels.py --programs target/debug --verifier $(VERIFIER) --only edge,programs 6.1 || [ $$? = 3 ]

test-comparison:
	@if target/debug/headway-lab uml path >/dev/null; \
	then $(QUICK_COMPARISON); \
	else echo 'The simulator was not compared with the stack of Linux: there is no kernel.'; fi

test-doc:
	$(LINTED) $(CARGO) test --workspace --doc --locked --quiet

format:
	$(CARGO) fmt --all --check
	$(RUSTFMT) --check $(UNDECLARED)

lint: format
	$(CARGO) clippy --workspace --all-targets --locked
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check; \
	else echo 'Advisories and licences of dependencies were not checked: cargo install cargo-deny'; fi

bench:
	$(NEED) rust ip bpf
	$(CARGO) bench --locked -p headway-estimate --bench estimate
	$(CARGO) bench --locked -p headway-estimate --bench learned
	$(CARGO) bench --locked -p headway-queue --bench explicit
	$(CARGO) bench --locked -p headway-lab --bench link
	$(CARGO) build --release --locked --bin headway --bin headway-lab --bin headway-bench
	target/release/headway-bench accuracy idle
	$(CARGO) bench --locked -p headway-sim --bench scheduler
	$(CARGO) bench --locked -p headway-sim --bench packets
	$(CARGO) bench --locked -p headway-kernel
	$(CARGO) bench --locked -p headway-passive --bench passive
	@if packaging/python.sh environment && packaging/python.sh wheel && packaging/python.sh install; \
	then target/python/bin/python bench/python.py; \
	else echo 'The Python package was not built, so its speed is unknown.'; fi
	@if python3 -m venv $(NS3_VENV) \
	&& $(NS3_VENV)/bin/pip install --quiet --prefer-binary ns3==$(NS3_VERSION); \
	then $(NS3_VENV)/bin/python bench/ns3_dumbbell.py; \
	else echo 'ns-3 could not be installed from the Python package registry, so there is nothing to compare with.'; fi
	@if [ -n "$(HTSIM)" ]; then python3 bench/htsim.py --htsim "$(HTSIM)"; \
	else echo 'HTSIM is not set: no comparison with csg-htsim.'; fi

accuracy:
	$(NEED) rust ip bpf
	$(CARGO) build --release --locked --bin headway --bin headway-bench
	target/release/headway-bench accuracy emulated --output $(REPORT)/accuracy.json
	target/release/headway-bench accuracy hard --output $(REPORT)/hard.json
	target/release/headway-bench accuracy emulated --coalesce --output $(REPORT)/coalescing.json
	target/release/headway-bench accuracy simulated --output $(REPORT)/accuracy

compare:
	$(NEED) rust ip bpf
	$(CARGO) build --release --locked --bin headway-bench
	target/release/headway-bench compare scenarios/compare.toml

# Claims that fail are printed and explained; they do not fail the target. Studies that train models need `make python`
# before, and are skipped otherwise.
repro:
	$(NEED) rust bpf
	$(CARGO) build --release --locked --bin headway-bench
	-HEADWAY_PYTHON=$${HEADWAY_PYTHON:-$$(test -x $(PYTHON) && echo $(PYTHON) || echo python3)} \
	target/release/headway-bench repro all --output $(REPORT)/repro

uml:
	$(NEED) rust bpf kernel
	$(CARGO) build --release --locked --bin headway-lab
	target/release/headway-lab uml build

# Kernel packages stay in target/kernels. A run of all kernels writes the table of the page.
kernels:
	$(NEED) rust bpf kernels$(ARCH:%=-%) $(NEED_TARGET)
	$(CARGO) build --profile demo --locked $(if $(ARCH),$(FOR_TARGET)) $(PROGRAM_PACKAGES)
	$(CARGO) test --locked $(if $(ARCH),$(FOR_TARGET)) -p headway-kernel --test verifier --no-run
	bench/kernels.py $(ARCH:%=--architecture %) --programs $(BUILT)/demo --verifier $(VERIFIER) $(KERNELS) \
	  $(if $(ARCH)$(filter-out file,$(origin KERNELS)),,--page docs/install.md)

# Needs the packages chromium and npm; without them the test says what is missing and passes. SCREENSHOTS=DIR keeps pictures.
BROWSER = crates/web/tests/browser
browser:
	$(NEED) rust
	$(CARGO) build --locked -p headway-web --example made_up
	@if node --version >/dev/null 2>&1 && npm ci --prefix $(BROWSER) --ignore-scripts --no-audit --no-fund; \
	then HEADWAY_SCREENSHOTS=$(abspath $(SCREENSHOTS)) node --test $(BROWSER)/page.test.js; \
	else echo 'SKIPPED the page in a browser: node or its registry of packages does not answer.'; fi

# Man pages and completions are written by a program of their own, into man1, bash, zsh and fish.
PREFIX ?= /usr/local
MANUAL = target/manual
install:
	$(NEED) rust bpf
	$(CARGO) build --release --locked $(PROGRAM_PACKAGES) -p headway-manual
	rm -rf $(MANUAL)
	target/release/headway-manual $(MANUAL)
	install -D -t $(DESTDIR)$(PREFIX)/bin $(addprefix target/release/,$(PROGRAMS))
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in $(UNITS); do \
	sed 's|@BINDIR@|$(PREFIX)/bin|' packaging/$$unit > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit; done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(MANUAL)/man1/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/headway/models models/*.json
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(MANUAL)/bash/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(MANUAL)/zsh/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d $(MANUAL)/fish/*

# The maintainer scripts of a package, with its units and those that restart on an upgrade.
scripts = mkdir -p target/deb/scripts/$(1); for script in postinst postrm prerm; do \
	sed 's|@UNITS@|$(2)|; s|@RESTARTED@|$(3)|' packaging/deb/$$script > target/deb/scripts/$(1)/$$script; done

# This profile has debug symbols, which cargo-deb moves to separate packages. The folders of the crates are named as the programs,
# with `cli` for `headway`. The lists of components are written beside the manifests of all crates that have a program.
deb: $(CARGO_DEB) $(CARGO_CYCLONEDX)
	$(NEED) rust bpf deb $(NEED_TARGET)
	$(CARGO) build --profile profiling --locked $(FOR_TARGET) $(PROGRAM_PACKAGES)
	$(CARGO) build --profile demo --locked -p headway-manual
	rm -rf target/deb $(DEBIAN)
	target/demo/headway-manual target/deb
	for unit in $(UNITS); do sed 's|@BINDIR@|/usr/bin|' packaging/$$unit > target/deb/$$unit; done
	$(call scripts,headway,headway-serve.service,headway-serve.service)
	$(call scripts,headway-router,headway-cc@*.service headway-edge.service headway-select.service,)
	$(CARGO_CYCLONEDX) cyclonedx --quiet --manifest-path crates/cli/Cargo.toml --describe binaries --no-build-deps --all \
	--target $(TARGET) --format json --spec-version 1.5
	set -e; for program in $(PROGRAMS); do crate=$$(echo $$program | sed 's/headway/cli/'); \
	mv crates/$$crate/$${program}_bin.cdx.json target/deb/$$program.cdx.json; \
	$(CARGO_DEB) --manifest-path crates/$$crate/Cargo.toml --target $(TARGET) --profile profiling --no-build --locked --dbgsym --quiet \
	--output $(DEBIAN); done
	rm -f crates/*/*.cdx.json
	packaging/all.sh $(DEBIAN) $(PROGRAMS)

$(CARGO_DEB):
	$(NEED) rust
	@$(CARGO) install cargo-deb --locked --version $(CARGO_DEB_VERSION) --root target/tools \
	|| { echo 'There is no package: cargo-deb could not be installed from the registry of crates.' >&2; exit 1; }

$(CARGO_CYCLONEDX):
	$(NEED) rust
	@$(CARGO) install cargo-cyclonedx --locked --version $(CARGO_CYCLONEDX_VERSION) --root target/tools \
	|| { echo 'There is no package: cargo-cyclonedx could not be installed from the registry of crates.' >&2; exit 1; }

# The wheel is for CPython 3.11 and later, on systems with this C library or a later one.
wheel:
	$(NEED) rust python
	packaging/python.sh environment
	packaging/python.sh wheel

python: wheel
	packaging/python.sh install
	packaging/python.sh test

# Needs root; runs on an overlay, so that this host is not changed.
deb-test: deb
	$(NEED) deb-test
	packaging/test.sh $(DEBIAN)

# With the GNU C library: Debian has libelf and zlib for linking with it, and its memory management is fast.
static:
	$(NEED) rust bpf static $(NEED_TARGET)
	$(CARGO) build --release --locked $(FOR_TARGET) $(ALL_IN_ONE) $(PROGRAM_PACKAGES)
	install -D -s --strip-program=$(GNU)strip -t $(STATIC) $(addprefix target/$(TARGET)/release/,$(PROGRAMS))

# Needs root; programs for another machine run in QEMU.
static-test: static
	$(NEED) static-test $(NEED_TARGET)
	packaging/static.sh $(STATIC)

# Of the image, which holds nothing but the programs and their libraries.
IMAGE ?= localhost/headway
container:
	$(NEED) rust bpf container
	$(CARGO) build --release --locked -p headway -p headway-cli-router
	packaging/container.sh target/release $(IMAGE)

# Needs root; runs it in network namespaces of its own.
container-test: container
	$(NEED) container-test
	packaging/container-test.sh $(IMAGE)

clean:
	$(CARGO) clean
	rm -rf $(REPORT)

hostile:
	$(NEED) rust ip bpf hostile
	$(CARGO) build --release --locked --bin headway
	$(CARGO) run --release --locked -p headway-net --example hostile -- --minutes $(or $(MINUTES),60)

# What a run finds stays in target/fuzz, where the next one continues. The dependencies are those of the program.
fuzz:
	$(NEED) rust fuzz
	cp Cargo.lock fuzz/Cargo.lock
	$(CARGO) +nightly fuzz build
	@failed=; for target in $$($(CARGO) +nightly fuzz list); do \
	echo "== $$target"; mkdir -p target/fuzz/$$target; \
	$(CARGO) +nightly fuzz run $$target target/fuzz/$$target fuzz/corpus/$$target -- \
	-max_total_time=$$(($(or $(MINUTES),1) * 60)) -timeout=20 -print_final_stats=1 || failed="$$failed $$target"; done; \
	if [ -n "$$failed" ]; then echo "Inputs that failed are in fuzz/artifacts:$$failed. Mend what they show, and copy them to" \
	'fuzz/corpus, which the tests feed to the parsers.' >&2; exit 1; fi

# Everything that the targets need, except for deb, container, hostile and fuzz.
setup:
	$(NEED) rust ip bpf kernel
