"""The shipped files load, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlatools.config import find_config, load
from vlatools.core import ConfigError, Family
from vlatools.policy.analytic import AnalyticConfig
from vlatools.tools import CheckConfig, ExecutorConfig, ToolsConfig


def test_the_shipped_thresholds_load_and_fit_the_analytic_policy() -> None:
    tools = load(ToolsConfig, find_config("tools.yaml"))
    analytic = load(AnalyticConfig, find_config("analytic.yaml"))
    for family in (Family.REACH, Family.GRASP, Family.MOVE, Family.RELEASE, Family.PUSH, Family.PULL, Family.ROTATE):
        monitor = tools.monitor_of(family)
        assert monitor.completion_threshold == 0.9
        assert monitor.completion_hold_s < 2 / analytic.rate_hz  # two samples are enough
    assert tools.monitor_of(Family.FLIP).horizon_s > 0  # a family without an entry has the defaults


def test_the_shipped_file_states_the_defaults_of_executor_and_checks() -> None:
    tools = load(ToolsConfig, find_config("tools.yaml"))
    assert tools.executor == ExecutorConfig()
    assert tools.checks == CheckConfig()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("executor: {period_s: 0.2}", "executor.period_s"),
        ("checks: {goal_distance: 2.0}", "checks.goal_distance"),
        ("monitor: {reach: {completion_threshold: 1.2}}", "completion_threshold"),
        ("monitor: {reach: {tau: 0.9}}", "tau"),
        ("monitor: {juggle: {}}", "juggle"),
        ("speed: 1", "speed"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load(ToolsConfig, file)
