# The two commands to know: `make demo` and `make test`. Nothing here asks a question.
.DEFAULT_GOAL := help
.PHONY: help env demo test tools lint docs site figures lock clean bench campaign area recorded formal

PYTHON := .venv/bin/python
READY  := .venv/.ready
PIP    := $(PYTHON) -m pip --disable-pip-version-check --no-input

help:
	@echo "make demo   set up .venv and run the demonstration"
	@echo "make test   set up .venv and the RTL tools, then run the tests"
	@echo "make env    set up .venv only          make tools  check or install the RTL tools"
	@echo "make lint   check style and types          make docs   write the generated documentation"
	@echo "make site   build the documentation as web pages: build/site/index.html"
	@echo "make bench  measure simulators and RTL make campaign  the slow tests and the long checks: random programs, operators, broken streams, RTL and files"
	@echo "make formal prove the claims about the RTL, where it has changed (a quarter of an hour at first)"
	@echo "make area   measure area and clock anew, where the hardware has changed (hours)"
	@echo "make figures measure the stale figures of the documentation anew (minutes)"
	@echo "make recorded write anew what tests compare: sizes of the hardware, cycles, lengths of code, pictures"
	@echo "make lock   resolve requirements.lock  make clean  remove whatever make has made"

env: $(READY)
	@:

$(READY): requirements.lock pyproject.toml
	@scripts/create_venv.sh
	@echo "[env] installing requirements.lock (a minute or two)"
	@$(PIP) install --quiet --require-hashes --only-binary :all: --no-binary litex-boards -r requirements.lock
	@echo "[env] installing vdla"
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "[env] ready"

demo: env
	@$(PYTHON) scripts/demo.py

# Images of containers often forbid bytecode; each of some hundred child processes would then compile the kit anew.
test: env tools
	@env -u PYTHONDONTWRITEBYTECODE $(PYTHON) -m pytest -n 2 --dist loadscope --no-loadscope-reorder -q -m 'not slow' tests

tools: env
	@scripts/setup_rtl_tools.sh

RECORDED := hw.test_hw hw.test_components sim.native.test_build sim.timing.test_timing sim.plots.test_drawn
recorded: env
	@for name in $(RECORDED); do PYTHONPATH=scripts $(PYTHON) -m tests.$$name || exit 1; done

bench: env tools
	@$(PYTHON) scripts/bench_functional.py
	@$(PYTHON) scripts/bench_rtl.py
	@$(PYTHON) scripts/bench_sim.py
	@$(PYTHON) scripts/bench_streams.py
	@$(PYTHON) scripts/bench_layers.py
	@$(PYTHON) scripts/bench_network.py
	@$(PYTHON) scripts/bench_host.py
	@$(PYTHON) scripts/run_on_rtl.py

campaign: env tools
	@$(PYTHON) -m pytest -n 2 --dist loadscope --no-loadscope-reorder -q -m slow tests
	@$(PYTHON) scripts/run_pages.py
	@$(PYTHON) scripts/random_programs.py --programs 5000 --configurations 16
	@$(PYTHON) scripts/planted_delays.py
	@$(PYTHON) scripts/check_netlist.py
	@$(PYTHON) scripts/prove_rtl.py
	@$(PYTHON) scripts/random_operators.py --cases 3000
	@$(PYTHON) scripts/random_graphs.py --graphs 500
	@$(PYTHON) scripts/verify_faults.py --flags 1000 --changes 20
	@$(PYTHON) scripts/compare_verifiers.py --streams 20000
	@$(PYTHON) scripts/break_verifier.py
	@$(PYTHON) scripts/break_streams.py --journal build/break_streams.jsonl
	@$(PYTHON) scripts/break_compiler.py
	@$(PYTHON) scripts/make_models.py
	@$(PYTHON) scripts/prove_networks.py --config default --config small --config tiny --config batch4
	@$(PYTHON) scripts/check_models.py --light
	@$(PYTHON) scripts/check_styles.py --jobs 2
	@$(PYTHON) scripts/onnx_node_tests.py
	@$(PYTHON) scripts/stress_cache.py --real 2
	@$(PYTHON) scripts/kill_commands.py
	@$(PYTHON) scripts/kill_sweep.py
	@$(PYTHON) scripts/kill_tune.py
	@$(PYTHON) scripts/fuzz_inputs.py
	@$(PYTHON) scripts/mutants.py

formal: env
	@$(PYTHON) scripts/prove_rtl.py

area: env
	@$(PYTHON) scripts/fill_silicon.py
	@$(PYTHON) scripts/make_docs.py

lint: env
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy

docs: env
	@$(PYTHON) scripts/make_docs.py

site: env tools
	@$(PYTHON) -m sphinx --quiet --fail-on-warning --jobs 2 -c docs/site -d build/site.doctrees . build/site
	@echo "[site] build/site/index.html"

figures: env
	@$(PYTHON) scripts/measure_figures.py
	@$(PYTHON) scripts/make_pictures.py

lock:
	@scripts/lock_requirements.sh

clean:
	@rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	@find . -name .git -prune -o \( -name __pycache__ -o -name sim_build \) -type d -print0 | xargs -0r rm -rf
