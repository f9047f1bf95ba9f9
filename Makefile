# Everything from a fresh clone: each target first makes .venv, with what it needs.
PYTHON ?= python3
BIN := .venv/bin
PROGRAM := .venv/.installed-program
STAMP := .venv/.installed
BENCH_STAMP := .venv/.installed-bench
unexport PYTHONDONTWRITEBYTECODE  # with it each process compiles all modules that it imports
NETWORKS := resnet18 resnet50 mobilenet_v2 squeezenet1_1 vgg16 bert_base gpt2 vit_b16

.PHONY: setup demo test test-all lint style types unit lit conformance conformance-open torch-coverage fuzz fuzz-open stress stress-tuning bench bench-ops bench-torch bench-decode tour clean

setup: $(STAMP)

# What it takes to compile and run models, and nothing else. Modules are compiled as pip does for a package that is not
# editable: with PYTHONDONTWRITEBYTECODE in the environment each process would compile all that it imports.
$(PROGRAM): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	$(BIN)/python -m compileall -q -j 0 *.py $(dir $(wildcard */__init__.py))
	touch $@

$(STAMP): $(PROGRAM)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

$(BENCH_STAMP): $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	touch $@

# An ONNX file in, a native program out, and the program's answer.
demo: $(PROGRAM)
	mkdir -p demo
	$(BIN)/tilewright zoo resnet18 -o demo/resnet18.onnx
	cd demo && ../$(BIN)/compile.py --target x86 resnet18.onnx
	cd demo && ../$(BIN)/tilewright run resnet18.so --fill random --seed 0 --print-top 5

# The type checker takes one core for minutes: beside the tests, which wait for processes now and then.
test: style
	$(MAKE) -j 2 types unit PYRIGHT_THREADS=
	$(MAKE) lit

lint: style types

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

PYRIGHT_THREADS ?= --threads 2
types: $(STAMP)
	$(BIN)/pyright $(PYRIGHT_THREADS)

# worksteal: each process has a half of the files, and with them what their tests share.
unit: $(STAMP)
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not slow"

# What takes long besides: large networks, another CPU, longer samples; then the campaigns at their usual lengths.
test-all: lint $(STAMP)
	TILEWRIGHT_VERIFY=1 $(BIN)/pytest -q -n 2 --dist worksteal
	$(BIN)/lit -v -j 2 tests/lit
	$(MAKE) conformance conformance-open torch-coverage fuzz fuzz-open stress stress-tuning

lit: $(STAMP)
	$(BIN)/lit -v -j 2 tests/lit

# The test suite that comes with the onnx package, for the shapes of its data, and with all of them open.
conformance: $(STAMP)
	cd tests && ../$(BIN)/python -m conformance.run

conformance-open: $(STAMP)
	cd tests && ../$(BIN)/python -m conformance.run --open

# PyTorch's modules and functions, each compiled and held against eager.
torch-coverage: $(STAMP)
	cd tests && ../$(BIN)/python -m torch_coverage.run

# Random models, mutants of their files, of compiled programs and of PyTorch's exported ones: make fuzz COUNT=10000 SEED=7 for
# others, KIND=graphs, bytes, artifacts or pt2 for one of them; FLAGS=--resume goes on where that was stopped.
COUNT ?= 1000
SEED ?= 0
KIND ?= graphs bytes artifacts pt2
fuzz: $(KIND:%=fuzz-%)

fuzz-%: $(STAMP)
	cd tests && ../$(BIN)/python -m fuzz.run $(if $(filter-out graphs,$*),--$*) --count $(COUNT) --seed $(SEED) $(FLAGS)

# Random graphs over several open sizes, each bound for itself, in guarded runs; FLAGS="--first 7 --count 1" for one of them.
fuzz-open: $(STAMP)
	cd tests && ../$(BIN)/python -m fuzz.sizes --count $(COUNT) --seed $(SEED) $(FLAGS)

# Four models, called from eight threads at once.
CALLS ?= 100000
stress: $(STAMP)
	cd tests && ../$(BIN)/python -m stress --calls $(CALLS)

# A thousand trials of small kernels, whose memory is watched, and searches that are killed at random moments.
TRIALS ?= 1000
KILLS ?= 20
stress-tuning: $(STAMP)
	cd tests && ../$(BIN)/python -m tuning_campaign --trials $(TRIALS) --kills $(KILLS) --seed $(SEED)

# The tables of the README: build/bench/networks.md and build/bench/kernels.md.
bench: $(BENCH_STAMP) $(NETWORKS:%=build/bench/%.onnx)
	$(BIN)/tilewright bench $(NETWORKS:%=build/bench/%.onnx) --compare onnxruntime --compare openvino \
	  --threads 1 --threads 2 -o build/bench/networks.md
	$(BIN)/tilewright bench --kernels -o build/bench/kernels.md

# Operators at the sizes of real networks beside onnxruntime, the slowest first: build/bench/ops.md.
bench-ops: $(STAMP)
	mkdir -p build/bench
	$(BIN)/tilewright bench --ops --threads 1 --threads 2 -o build/bench/ops.md

# The table of networks from PyTorch, beside eager, inductor (which wants a C++ compiler) and the same ones from ONNX.
bench-torch: $(BENCH_STAMP) $(patsubst %,build/bench/%.onnx,resnet18 mobilenet_v2 bert_base vit_b16)
	cd tests && ../$(BIN)/python -m torch_bench

# Decoders in sessions, token by token, beside onnxruntime: build/bench/decode.md.
bench-decode: $(STAMP)
	cd tests && ../$(BIN)/python -m decode_bench

# docs/tour.md, from a compilation.
tour: $(STAMP)
	$(BIN)/python docs/make_tour.py

build/bench/%.onnx: tools/networks/*.py | $(STAMP)
	mkdir -p build/bench
	$(BIN)/tilewright zoo $* -o $@ --quiet

clean:
	rm -rf build demo
