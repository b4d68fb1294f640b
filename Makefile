# make demo: fine-tune a pre-trained model on the embedded genes, next to k-mers and to the same model
# from scratch, then classify and embed a FASTA file with it and draw the embedding.
# make test: a virtual environment with the tested versions, then lint, types and tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# memory that the C library keeps need not be faulted in again, which costs much of a training step
FAST_MALLOC := MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=17179869184
DEMO := runs/demo
# the fields of model_cards/chordmixer-microbes
DEMO_MODEL := "track_size": 12, "intermediate_size": 96, "pre_norm": "layer",
DEMO_MODEL += "block_order": "mix_rotate", "rotation": "alternating",
DEMO_MODEL += "max_position_embeddings": 16384, "ngram_size": 4, "kmer_size": 4, "kmer_phases": 3,
DEMO_MODEL += "kmer_hidden_size": 256, "pooled_norm": "running"

.PHONY: help demo test exhaustive quick lint types format docs lowest wheel space quantization benchmarks install clean

help:  ## show the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*##/\t/'

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade -c constraints.txt pip
	# torch first: its own version decides which build the others see
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

install: $(VENV)/installed  ## create the virtual environment

demo: install  ## fine-tune on the embedded genes (minutes), then classify and embed a FASTA file
	$(FAST_MALLOC) $(BIN)/python examples/finetune_classification.py --output_dir $(DEMO) \
		--overwrite true --checkpoint model_cards/chordmixer-microbes \
		--split_column split_species --baselines kmer codon
	$(FAST_MALLOC) $(BIN)/python examples/finetune_classification.py --output_dir $(DEMO)_scratch \
		--overwrite true --settings '{$(DEMO_MODEL)}' --split_column split_species \
		--max_steps 100 --train_token_budget 8192 --learning_rate 1e-3 --muon_learning_rate 6e-3 \
		--warmup_steps 0.1 --weight_decay 0.05 --baselines none
	$(BIN)/hf-mixers predict $(DEMO) examples/genes.fa --output $(DEMO)/answers.tsv --overwrite
	$(BIN)/hf-mixers embed $(DEMO) examples/genes.fa --pooling cls \
		--output $(DEMO)/vectors.parquet --overwrite
	$(BIN)/python examples/draw_embedding.py --vectors $(DEMO)/vectors.parquet \
		--answers $(DEMO)/answers.tsv --output $(DEMO)/embedding.png

lint: install  ## check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: install  ## format and mend style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: install  ## check the types of the package
	$(BIN)/mypy

test: lint types  ## lint, check types and test, in at most 8 minutes on two quiet cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not exhaustive"

exhaustive: install  ## all tests, also for every family, head and setting that `make test` leaves out
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

quick: install  ## tests for the edit-test loop, in at most 90 seconds on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q --hypothesis-profile quick \
		-m "not slow and not processes and not timing and not variant and not exhaustive" \
		$(addprefix --ignore=tests/,training examples recipes benchmarks tasks cli) \
		tests hf_mixers

docs: install  ## build the site into site/; a broken link or reference is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lowest: install  ## some tests with the lowest versions that pyproject.toml declares
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) .github/scripts/lowest_versions.py > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/pip install --quiet -c $(VENV)-lowest/lowest.txt torch
	$(VENV)-lowest/bin/pip install --quiet -c $(VENV)-lowest/lowest.txt -e ".[test]"
	OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -q tests/models/test_contract.py tests/data

wheel: install  ## build the wheel, install it elsewhere and use it
	rm -rf dist $(VENV)-wheel
	$(BIN)/python -m build --wheel
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/pip install --quiet -c constraints.txt torch
	$(VENV)-wheel/bin/pip install --quiet -c constraints.txt dist/*.whl
	cd $(VENV)-wheel && bin/hf-mixers --help && bin/python $(CURDIR)/.github/scripts/use_wheel.py

# an environment on top of the other one, for packages that it should not have
define BESIDE
$(PYTHON) -m venv $(@D)
$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib')); print('$(CURDIR)')" > \
	$$($(@D)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/base.pth
endef

# gradio does not accept some of the tested versions
$(VENV)-space/installed: $(VENV)/installed examples/space/constraints.txt
	$(BESIDE)
	$(VENV)-space/bin/pip install --quiet -c examples/space/constraints.txt "gradio[mcp]"
	touch $@

# torchao is imported by transformers wherever it is installed, and writes warnings
$(VENV)-torchao/installed: $(VENV)/installed
	$(BESIDE)
	$(VENV)-torchao/bin/pip install --quiet --no-deps -c constraints.txt torchao
	touch $@

quantization: $(VENV)-torchao/installed  ## the tests of weights in 8 bits, with torchao
	OMP_NUM_THREADS=1 $(VENV)-torchao/bin/python -m pytest -q tests/models/test_quantization.py

space: $(VENV)-space/installed  ## an environment with gradio, for examples/space and its test

benchmarks: install  ## measure everything (hours, on a quiet machine), then make tables and plots
	$(BIN)/python -m benchmarks.speed all
	$(BIN)/python -m benchmarks.report

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-wheel $(VENV)-space $(VENV)-torchao dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
