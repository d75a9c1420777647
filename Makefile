# SPDX-License-Identifier: Apache-2.0
# The commands of README and CONTRIBUTING. Each installs what it needs first; all may be repeated.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
DATA ?=
FUZZ_SECONDS ?= 600
SOAK_RUNS ?= 20
PICTURES ?= 100000
FILTER ?= .
PRESETS := dev release asan tsan coverage fuzz
# Whether the CUDA plug-in is built: ON, OFF, or AUTO, which takes a compiler that is there already. Who
# only loads pictures need not download one; what is tested or packed has it (below).
CUDA ?= AUTO

# A compiler cache where there is one; paths are made relative so that another clone hits too.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CMAKE_CXX_COMPILER_LAUNCHER = $(shell command -v ccache)
# The thread sanitizer of g++ 12 does not start under the widest address randomisation.
NO_ASLR = $(shell setarch -R true 2>/dev/null && echo setarch -R)
CTEST = ctest --output-on-failure -j $(JOBS)
PYTEST = .venv/bin/python -m pytest -c dev/pytest.toml --rootdir .

# Each target is parallel inside; two at a time would only mix their output.
.NOTPARALLEL:
.PHONY: help setup setup-lint setup-frameworks setup-docs setup-cuda build test demo bench fuzz soak format lint tidy analyze layers clean
.PHONY: test-unit test-cli test-report test-python test-wheel test-asan test-tsan test-neon consumer
.PHONY: link-python stubs wheel wheel-cuda cuda coverage-cuda docs
.PHONY: $(PRESETS:%=configure-%) $(PRESETS:%=build-%)

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'

setup:
	@dev/setup

setup-lint:
	@dev/setup lint

setup-frameworks:
	@dev/setup frameworks

setup-docs:
	@dev/setup docs

setup-cuda:
	@dev/setup cuda

# Who asks for one of these asks for the plug-in.
test test-unit test-cli test-python test-wheel test-asan test-tsan consumer soak tidy analyze cuda wheel-cuda \
coverage-cuda configure-dev configure-asan configure-tsan configure-coverage: CUDA = ON

$(PRESETS:%=configure-%): configure-%: setup
	@$(if $(filter ON,$(CUDA)),dev/setup cuda)
	@cmake --preset $* $(if $(filter fuzz,$*),,-DFEEDRACE_CUDA=$(CUDA)) >build/configure-$*.log 2>&1 || { cat build/configure-$*.log; exit 1; }

$(PRESETS:%=build-%): build-%: configure-%
	@$(if $(filter tsan,$*),$(NO_ASLR)) cmake --build --preset $* -j $(JOBS)

build: configure-release  ## Build the program and the Python package, which .venv then imports
	@cmake --build --preset release -j $(JOBS) --target program feedrace_python
	@$(MAKE) link-python
	@echo "built: build/release/bin/feedrace; .venv/bin/python imports feedrace"

# Links, not copies: a module that is edited is at once what .venv imports.
link-python:
	@CMAKE_INSTALL_MODE=ABS_SYMLINK cmake --install build/release --component python --prefix \
	  "$$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" \
	  >build/link-python.log || { cat build/link-python.log; exit 1; }

stubs: build  ## Write python/feedrace/_feedrace.pyi anew from the native module
	@.venv/bin/python -m nanobind.stubgen -q --exclude-values -m feedrace._feedrace -o python/feedrace/_feedrace.pyi

cuda: configure-release  ## Build the CUDA plug-in; downloads 110 MB of compiler and headers
	@cmake --build --preset release -j $(JOBS) --target feedrace_cuda_plugin
	@echo "built: build/release/libfeedrace_cuda.so"

wheel-cuda: cuda  ## Build build/wheel-cuda/*.whl, the CUDA plug-in for the package feedrace
	@.venv/bin/python dev/wheel/build_cuda.py build/release build/wheel-cuda

wheel: setup  ## Build build/wheel/*.whl, which carries its libraries and their licences
	@dev/wheel/build

docs: setup-docs  ## Build the documentation's site in build/site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict --site-dir build/site
	@echo "docs: build/site/index.html"

test: lint layers tidy test-unit test-cli test-python test-wheel consumer test-asan test-tsan  ## Everything that CI checks
	@echo "make test: all passed"

# The build that users run is the one that is tested; asserts are on under the sanitizers.
test-unit: build-release  ## Unit tests and corpus replay
	@$(CTEST) --test-dir build/release

test-cli: build-release  ## Tests of the command line and of the tools in dev/
	@$(PYTEST) tests --ignore tests/python --ignore tests/browser

.PHONY: pack-crashes
pack-crashes: export FEEDRACE_PACK_KILLS := 50
pack-crashes: export FEEDRACE_PACK_FILLS := 20
pack-crashes: build-release  ## Kill `feedrace pack` at 50 moments and fill its disk at 20
	@$(PYTEST) tests/test_pack.py tests/test_pack_disk_full.py -k 'killed or fills_up'

test-report: build-release  ## The page of feedrace report in headless Chromium, which it installs
	@dev/setup report
	@$(PYTEST) tests/browser

test-python: setup-frameworks setup-docs build-release link-python  ## Tests of the Python package
	@$(PYTEST) tests/python --ignore-glob 'tests/python/test_wheel*.py'

test-wheel: setup-frameworks build-release wheel wheel-cuda  ## Tests of the wheels, in environments of their own
	@$(PYTEST) tests/python/test_wheel.py tests/python/test_wheel_cuda.py

test-asan: build-asan  ## The same unit tests under address and undefined-behaviour sanitizers
	@$(CTEST) --test-dir build/asan

test-tsan: build-tsan  ## The same unit tests under the thread sanitizer
	@$(NO_ASLR) $(CTEST) --test-dir build/tsan -LE fuzz

coverage-cuda: configure-coverage  ## Line coverage of the host code of src/feedrace/cuda, at least 90 %
	@cmake --build --preset coverage -j $(JOBS) --target feedrace_cuda_test
	@.venv/bin/python dev/coverage_cuda.py build/coverage $(JOBS)

consumer: build-release  ## Build and run a program outside the tree against the installed library
	@dev/check_consumer build/release

# By the environment, not by make: a path may hold blanks and quotes.
demo: export DATA := $(DATA)
demo:  ## Run the main job on photographs, or on DATA=folder, shards or list
	@dev/demo/run "$$DATA"

bench: build-release  ## Run the micro-benchmarks, FILTER=regex some of them
	@dev/run_benches build/release '$(FILTER)'

PEERS ?= python dali torch tf
PEERS_DIR ?= build/peers
ROUNDS ?= 3
SECONDS ?= 5
QUIET_CORES ?= 0.15
SECONDS_A_SET ?= 20
ONLY ?= .
NEED_DATA = $(or $(DATA),$(error DATA is empty; give a folder of class folders of JPEGs))

NEED_FILE = $(or $(FILE),$(error FILE is empty; give a file of several GB, such as a shard))

.PHONY: bench-python bench-peers bench-recipe bench-pack bench-decoded bench-jpeg bench-memory bench-startup bench-io bench-storage bench-verdict
bench-peers: build  ## Compare with other loaders on DATA=folder, see bench/peers/README.md
	@bench/peers/setup '$(PEERS_DIR)' $(PEERS)
	@.venv/bin/python -m bench.peers.run '$(NEED_DATA)' --peers $(PEERS) --peers-dir '$(PEERS_DIR)' \
	  --rounds $(ROUNDS) --seconds $(SECONDS) --quiet-cores $(QUIET_CORES) --only '$(ONLY)'

bench-recipe: build  ## The training recipe beside the fastest peers, in ratios, on DATA=folder; installs 8 GB
	@bench/peers/setup '$(PEERS_DIR)' torch dali tf turboloader ffcv
	@.venv/bin/python -m bench.peers.recipe '$(NEED_DATA)' --peers-dir '$(PEERS_DIR)' \
	  --rounds $(ROUNDS) --seconds $(SECONDS) --quiet-cores $(QUIET_CORES)

bench-pack: build  ## Packing beside copying, and what its options cost, on DATA=folder
	@.venv/bin/python -m bench.pack '$(NEED_DATA)'

bench-decoded: build  ## Decoded shards beside turboloader and FFCV, on DATA=folder; installs 2 GB
	@bench/peers/setup '$(PEERS_DIR)' turboloader ffcv
	@.venv/bin/python -m bench.peers.decoded '$(NEED_DATA)' --peers-dir '$(PEERS_DIR)' \
	  --rounds $(ROUNDS) --seconds $(SECONDS)

bench-python: build setup-frameworks  ## What the Python loop costs over the program, on DATA=folder
	@.venv/bin/python -m bench.python_loop '$(NEED_DATA)'

bench-jpeg: build  ## Compare JPEG decoding with libjpeg-turbo on DATA=folder, as several encoders write it
	@dev/setup bench
	@.venv/bin/python -m bench.jpeg '$(NEED_DATA)' --seconds $(SECONDS_A_SET)

bench-memory: build  ## Compare the memory taken with the memory planned, on DATA=folder
	@.venv/bin/python -m bench.memory '$(NEED_DATA)'

bench-startup: build  ## Time from process start to first batch, on DATA=folder
	@.venv/bin/python -m bench.startup '$(NEED_DATA)'

bench-io: build  ## Compare reads with fio on FILE=large file, 30 pairs each way
	@.venv/bin/python -m bench.io '$(NEED_FILE)'

bench-storage: build  ## Reading alone, against fio and threads; makes 24 GB in DATA=folder, needs root
	@.venv/bin/python -m bench.storage '$(NEED_DATA)'

bench-verdict: build  ## Does the verdict name what limits, and do its gains come true? On DATA=folder; root for most
	@cmake --build --preset release -j $(JOBS) --target faulty_fs
	@.venv/bin/python -m bench.situations '$(NEED_DATA)'
	@.venv/bin/python -m bench.gains '$(NEED_DATA)'

.PHONY: gpu-check
# By the environment, as for demo. What it lacks to run at all it builds or names.
gpu-check: export DATA := $(DATA)
gpu-check:  ## Test and measure on this machine's NVIDIA GPU, 8 minutes; see docs/gpu_check.md
	@gpu/check

fuzz:  ## Fuzz every target for FUZZ_SECONDS=600 each
	@dev/setup fuzz
	@$(MAKE) build-fuzz
	@dev/run_fuzzers build/fuzz $(FUZZ_SECONDS)

.PHONY: jpeg-check
# By the environment, as for demo.
test-neon: setup  ## The JPEG decoder's tests on 64-bit Arm, under emulation (adds Debian's arm64 packages)
	@dev/setup neon
	@cmake -S . -B build/neon -G Ninja -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64.cmake \
	  -DCMAKE_BUILD_TYPE=Release -DFEEDRACE_TESTS=ON >build/configure-neon.log 2>&1 || { cat build/configure-neon.log; exit 1; }
	@cmake --build build/neon -j $(JOBS) --target feedrace_jpeg_test
	@LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu qemu-aarch64 -L /usr/aarch64-linux-gnu \
	  build/neon/bin/feedrace_jpeg_test --gtest_brief=1

jpeg-check: export FEEDRACE_JPEG_CHECK_FOLDER := $(DATA)
jpeg-check: export FEEDRACE_JPEG_CHECK_COUNT := $(PICTURES)
jpeg-check: configure-release  ## Compare our JPEG decoder with libjpeg-turbo on 100,000 pictures, and on DATA=folder
	@cmake --build --preset release -j $(JOBS) --target feedrace_decode_test
	@build/release/bin/feedrace_decode_test --gtest_brief=1 --gtest_filter='JpegSynthetic.*'

soak: build-tsan  ## Repeat the threaded tests SOAK_RUNS=20 times under the thread sanitizer
	@$(NO_ASLR) $(CTEST) --test-dir build/tsan -L '^(core|storage|cuda|pipeline)$$' --repeat until-fail:$(SOAK_RUNS)

format: setup-lint  ## Format C++, Python and CMake
	@dev/lint --fix

lint: setup-lint  ## Check formatting, spelling, links, licences, sizes
	@dev/lint

tidy: setup-lint configure-release  ## Run clang-tidy over the library and the program, or FILES="a.cc b.cc"
	@dev/tidy $(JOBS) $(FILES)

analyze: setup-lint configure-release  ## make tidy with the static analyzer; takes four times as long
	@dev/tidy --analyze $(JOBS) $(FILES)

layers: setup  ## Check that folders include only what the architecture allows
	@.venv/bin/python dev/check_layers.py

clean:  ## Remove what was built; .venv stays
	rm -rf build
