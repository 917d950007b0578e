# make demo    everything on a fresh machine, with a scenario set to try
# make serve   the product, on DATABASE_URL, BROKER_URL and PORT (docs/operations.md)
# make test    the whole suite, on SQLite and on MariaDB; TESTS="..." for a part of it
# make lint    what CI checks besides
# make pictures  the pictures of the README, of the real pages

PYTHON_BIN := .venv/bin
.PHONY: demo serve install test lint lock pictures clean

demo: install
	@$(PYTHON_BIN)/python manage.py demo

serve: install
	@$(PYTHON_BIN)/python manage.py serve

install:
	@.ci/install runtime

test:
	@.ci/install tests
	@$(PYTHON_BIN)/python -m tests.support.suite $(TESTS)

lint:
	@.ci/install tests
	@PATH=$(CURDIR)/$(PYTHON_BIN):$$PATH .ci/lint

pictures:
	@.ci/install tests
	@$(PYTHON_BIN)/python -m tests.support.pictures

# The lock files hold versions and hashes, and no address of any registry.
lock:
	@.ci/install tests
	$(PYTHON_BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links pyproject.toml --output-file requirements.txt
	$(PYTHON_BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links --constraint requirements.txt --group dev \
		--output-file tests/requirements.txt

# Everything that can be made again. The databases, keys and evidence in var/ are not.
clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis htmlcov var/test
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
