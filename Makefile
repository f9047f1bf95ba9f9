# Everything from a fresh clone: each target first makes .venv, once.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
NETWORKS = $(shell $(BIN)/tilewright zoo --list --quiet)

.PHONY: setup demo test lint unit lit conformance bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	mkdir -p .venv/src && ln -sfn $(CURDIR) .venv/src/tilewright
	touch $@

# An ONNX file in, a native program out, and the program's answer.
demo: $(STAMP)
	mkdir -p demo
	$(BIN)/tilewright zoo resnet18 -o demo/resnet18.onnx
	cd demo && ../$(BIN)/compile.py --target x86 resnet18.onnx
	cd demo && ../$(BIN)/tilewright run resnet18.so --fill random --seed 0 --print-top 5

test: lint unit lit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

unit: $(STAMP)
	$(BIN)/pytest -q -n 2

lit: $(STAMP)
	$(BIN)/lit -v -j 2 tests/lit

# The test suite that comes with the onnx package.
conformance: $(STAMP)
	cd tests && ../$(BIN)/python -m conformance.run

bench: $(STAMP)
	mkdir -p build/bench
	set -e; for name in $(NETWORKS); do \
	  $(BIN)/tilewright zoo $$name -o build/bench/$$name.onnx --quiet; \
	  $(BIN)/tilewright bench build/bench/$$name.onnx --compare onnxruntime --threads 1; \
	done

clean:
	rm -rf build demo
