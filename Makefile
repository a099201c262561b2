# Everything below works from a fresh clone: each target sets up first (scripts/setup.sh skips what is done).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

TASK ?= simple
SEED ?= 0
PYTEST_ARGS ?=
BIN := .venv/bin

# A sourced ROS or another environment must not leak into ours.
unexport PYTHONPATH PYTHONHOME AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE VIRTUAL_ENV

.PHONY: help setup demo test lint lock clean

help: ## This list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 16

setup: ## System packages, .venv, ROS interfaces, vlatools (VLATOOLS_PYTHON=/path/to/python3 chooses the interpreter)
	@scripts/setup.sh

demo: setup ## A pick-and-place trial on the simulated robot (TASK=simple|conditioned|long SEED=n)
	@$(BIN)/vlatools demo --task $(TASK) --seed $(SEED)

test: lint ## Checks and all tests (PYTEST_ARGS="-k name" for a part)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: setup ## Import floors, style, types
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/ruff check
	@$(BIN)/mypy

lock: setup ## Resolve requirements.in into requirements.lock again (LOCK_ARGS=--upgrade for the newest versions)
	@scripts/lock.sh $(LOCK_ARGS)

clean: ## Removes what setup and tests made; recorded trials stay
	rm -rf .venv .setup build ros2_ws/build ros2_ws/install ros2_ws/log .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
