# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := $(VENV)/.demo
READY  := $(VENV)/.ready
PINS   := --constraint constraints.txt
EXTRAS := dev
PIP    := $(BIN)/python -m pip install --no-compile --disable-pip-version-check
# What Python compiles is kept, whatever the surroundings say: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick test-newest test-all lint types warm layers pytest fast browser wheel golden bench cluster fuzz clean

# What is printed here is what the README shows: made with the wheels, whatever toolkit is installed.
demo: $(DEMO)
	@mkdir -p build
	@$(BIN)/warplens analyze --launch examples/saxpy.toml --toolkit wheels --html build/saxpy.html --save build/saxpy.json
	@echo
	@$(BIN)/warplens show examples/saxpy.cu --launch examples/saxpy.toml --toolkit wheels

test: lint
	@$(MAKE) --no-print-directory -j2 types warm
	@$(MAKE) --no-print-directory layers pytest

# Under a minute, for developers: what takes at most half a second (tests/quick.py chooses, by what earlier runs took).
quick: lint
	@$(MAKE) --no-print-directory -j2 layers warm
	@$(MAKE) --no-print-directory fast

# The same with the newest version of everything but Triton (286 MB), in a folder of its own; what these were is printed
# last, also where a test fails.
test-newest:
	rm -rf build/newest
	$(MAKE) --no-print-directory VENV=build/newest EXTRAS=dev,ncu,parquet,dask \
		PINS="--upgrade --upgrade-strategy eager" demo test; code=$$?; \
	build/newest/bin/python -m pip freeze --exclude-editable; exit $$code

# The emulator and the simulator are compiled once, not by each process that tests.
warm: $(READY)
	@$(BIN)/warplens analyze --launch examples/saxpy.toml --toolkit wheels > /dev/null

lint: $(READY)
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

pytest: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup

fast: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --quick --no-header tests/null

# Pages in Chromium: without one they fail.
browser: $(READY)
	$(BIN)/pytest --never-skip tests/html

# The wheel and the sdist, built and installed without network: their size, their content, what the commands answer.
wheel: $(READY)
	$(BIN)/pytest --never-skip -m slow --durations 5 tests/packaging

# Rewrite the golden files of the command line; read the difference before you commit it.
golden: $(READY)
	$(BIN)/pytest tests/golden --golden; git diff --stat tests/golden

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz.run --count 10000 --seed 1 --jobs 2

# The whole corpus and every launch, not only those that `make test` takes.
test-all: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup -m "slow or not slow"

bench: $(READY)
	$(BIN)/python bench/speed.py; first=$$?; $(BIN)/python bench/command.py; second=$$?; \
	$(BIN)/python bench/launches.py && $(BIN)/python bench/sweeping.py && exit $$((first + second))

# The same sweep on Dask clusters, with workers killed; needs the extra dask and what `make bench` left in build/sweep.
cluster: $(READY)
	$(BIN)/python bench/sweeping.py --folder build/sweep && $(BIN)/python bench/cluster.py --folder build/sweep

$(DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("warplens needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	@echo "installing into $(VENV): some 270 MB to download"
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(PINS) --editable .
	@touch $(DEMO)

$(READY): $(DEMO)
	$(PIP) $(PINS) --editable '.[$(EXTRAS)]'
	@touch $(READY)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
