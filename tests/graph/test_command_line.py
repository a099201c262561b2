"""``vlatools`` as a newcomer calls it: a whole demo, Ctrl-C, and what goes wrong at the start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

VLATOOLS = [sys.executable, "-m", "vlatools.cli"]


def run(*arguments: str, cwd: Path, timeout_s: float = 60.0, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*VLATOOLS, *arguments], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def begin(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([*VLATOOLS, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def children(marker: str) -> list[str]:
    """Processes of a graph, found by a path that only they have on their command line or in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = os.readlink(folder / "cwd")
        except OSError:
            continue
        if "vlatools" in line and marker in where:
            found.append(line)
    return found


@pytest.mark.slow
def test_the_demo_ends_with_a_judged_recorded_trial(tmp_path: Path) -> None:
    done = run("demo", "--task", "simple", "--seed", "0", "--trials", "here", cwd=tmp_path, timeout_s=240.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
    (trial,) = (tmp_path / "here").glob("*/trial.json")
    assert f"trial: {trial.parent}" in done.stdout
    kept = json.loads(trial.read_text())
    assert kept["success"] is True
    assert (trial.parent / "report.html").stat().st_size > 50_000
    assert not children(str(tmp_path)), "processes were left behind"


@pytest.mark.slow
@pytest.mark.parametrize("when", ["starting", "running"])
def test_control_c_ends_everything(tmp_path: Path, when: str) -> None:
    demo = begin("demo", "--trials", "here", cwd=tmp_path)
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if (when == "starting" and "starting" in line) or "observed" in line or "planned" in line:
            break
    time.sleep(0.5)
    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=60.0)
    assert demo.returncode == 130, "".join(lines) + rest
    assert "Traceback" not in rest
    assert not children(str(tmp_path)), "processes were left behind"
    if when == "running":
        (trial,) = (tmp_path / "here").glob("*/trial.json")
        assert json.loads(trial.read_text())["outcome"] == "CANCELED"


@pytest.mark.slow
def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    demo = begin("demo", "--no-record", cwd=tmp_path)
    assert demo.stdout is not None
    for line in demo.stdout:
        if "starting" in line:
            break
    time.sleep(3.0)
    assert len(children(str(tmp_path))) > 5
    demo.kill()
    demo.wait()
    killed_s = time.monotonic()
    while (left := children(str(tmp_path))) and time.monotonic() - killed_s < 20.0:
        time.sleep(0.2)
    assert not left


def test_a_wrong_calibration_is_one_clear_line(tmp_path: Path) -> None:
    done = run("up", "--sim", "--robot-ip", "127.0.0.77", "--calibration", "nonsense.yaml", cwd=tmp_path, ROS_DOMAIN_ID="97")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "nonsense.yaml" in done.stderr
    assert "sim_d435.yaml" in done.stderr  # names what there is
    assert "Traceback" not in done.stdout + done.stderr
    assert not children(str(tmp_path))


def test_run_without_a_graph_says_how_to_start_one(tmp_path: Path) -> None:
    done = run("run", "put the red cube into the left bowl", cwd=tmp_path, ROS_DOMAIN_ID="98", ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST")
    assert done.returncode == 2
    assert "vlatools up" in done.stdout + done.stderr


def test_doctor_in_simulation_finds_nothing_wrong(tmp_path: Path) -> None:
    done = run("doctor", "--sim", cwd=tmp_path, timeout_s=90.0)
    assert done.returncode == 0, done.stdout
    assert " 0 failed" in done.stdout


@pytest.mark.parametrize(
    "command", ["", "demo", "up", "run", "sim", "doctor", "trial", "trial list", "trial show", "trial judge", "bag info", "bag repair"]
)
def test_help_is_complete(command: str) -> None:
    from typer.testing import CliRunner

    from vlatools.cli import app

    shown = CliRunner().invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert len(shown.output) > 200
