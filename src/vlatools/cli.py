"""``vlatools``: the command line. It only parses; ``vlatools.commands`` does the work."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from vlatools import __version__
from vlatools.core import VlatoolsError

app = typer.Typer(
    name="vlatools",
    help="Vision-language-action models as callable tools for a Franka Research 3.\n\nNo robot? Try: [bold]vlatools demo[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
trial_app = typer.Typer(help="Look at recorded trials and judge them.", no_args_is_help=True, rich_markup_mode="rich")
bag_app = typer.Typer(help="Look into a bag, or mend it.", no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(trial_app, name="trial")
app.add_typer(bag_app, name="bag")

console = Console()
errors = Console(stderr=True)


class Task(str, Enum):
    """The shipped tasks."""

    simple = "simple"
    conditioned = "conditioned"
    long = "long"


TrialsRoot = Annotated[Path, typer.Option("--trials", help="Folder of the recorded trials.")]
RobotIp = Annotated[str, typer.Option("--robot-ip", help="Address of the robot's control unit.")]
CameraSerial = Annotated[str, typer.Option("--camera-serial", help="Serial number of the D435; empty: the only one connected.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the simulated scene.")]
TaskOption = Annotated[Task, typer.Option("--task", help="Which task.")]
Policy = Annotated[str, typer.Option("--policy", help="Policy that executes the tool families.")]


@app.callback()
def _global(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.", is_eager=True)] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens inside.")] = False,
) -> None:
    if version:
        console.print(__version__)
        raise typer.Exit
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s")


@app.command()
def demo(
    task: TaskOption = Task.simple,
    seed: Seed = 0,
    policy: Policy = "analytic",
    record: Annotated[bool, typer.Option("--record/--no-record", help="Record the trial as a bag with a report.")] = True,
    trials: TrialsRoot = Path("trials"),
) -> None:
    """Run one whole trial on the simulated robot: nodes, task, judge, bag, report.

    Exit code 0 only if the final [bold]physical[/bold] state is right; 1 if it is not, 2 if something could not start, 130 on Ctrl-C.

    Example: vlatools demo --task long --seed 7
    """
    from vlatools.commands.demo import run_demo

    raise typer.Exit(run_demo(console, task.value, seed, policy, record, trials))


@app.command()
def up(
    sim: Annotated[bool, typer.Option("--sim", help="Start the simulated robot and camera instead of using real ones.")] = False,
    robot_ip: RobotIp = "172.16.0.2",
    camera_serial: CameraSerial = "",
    calibration: Annotated[str, typer.Option("--calibration", help="Hand-eye calibration; empty: sim_d435.yaml or lab.yaml.")] = "",
    policy: Policy = "analytic",
    planner: Annotated[str, typer.Option("--planner", help="Planner behind /run_task.")] = "library",
    record: Annotated[bool, typer.Option("--record/--no-record", help="Start the recorder.")] = True,
    task: Annotated[Task, typer.Option("--task", help="Scene of the simulation.")] = Task.simple,
    seed: Seed = 0,
    speed: Annotated[float, typer.Option("--speed", help="Speed scale of the arm, above 0 up to 1.")] = 1.0,
) -> None:
    """Start all nodes and keep them running until Ctrl-C. Where ROS is installed, ros2 launch vlatools franka.launch.py does the same.

    Examples: vlatools up --robot-ip 172.16.0.2 --speed 0.3        vlatools up --sim --task long
    """
    from vlatools.commands.up import run_up
    from vlatools.nodes.table import Arguments

    given = Arguments(
        robot_ip="127.0.0.5" if sim and robot_ip == "172.16.0.2" else robot_ip,
        sim=sim,
        camera_serial=camera_serial,
        calibration=calibration,
        policy=policy,
        planner=planner,
        record=record,
        task=task.value,
        seed=seed,
        speed=speed,
    )
    raise typer.Exit(run_up(console, given))


@app.command()
def run(
    instruction: Annotated[str, typer.Argument(help="What to do, e.g. 'put the red cube into the left bowl'.")],
    task: Annotated[str, typer.Option("--task", help="Task whose budgets and limits apply; empty: defaults.")] = "",
    time_limit: Annotated[float, typer.Option("--time-limit", min=0.0, help="Seconds; 0: the task's limit.")] = 0.0,
    record: Annotated[bool, typer.Option("--record/--no-record", help="Record the trial.")] = True,
) -> None:
    """Give the running graph (vlatools up, or ros2 launch) an instruction. Ctrl-C cancels the task and stops the arm.

    Exit code 0 if the task completed and perception confirmed it.

    Example: vlatools run "stack the red cube on the yellow cube"
    """
    from vlatools.commands.run import run_instruction

    raise typer.Exit(run_instruction(console, instruction, task, time_limit, record))


@app.command()
def sim(
    task: TaskOption = Task.simple,
    seed: Seed = 0,
    robot_ip: Annotated[str, typer.Option("--robot-ip", help="Loopback address at which the simulated robot answers.")] = "127.0.0.5",
    domain: Annotated[str, typer.Option("--domain", help="Name that keeps two simulations on one machine apart.")] = "default",
) -> None:
    """Start only the simulated robot, gripper and camera feed; franky connects to it as to a real robot.

    Example: vlatools sim --robot-ip 127.0.0.5   then   franky.Robot("127.0.0.5")
    """
    from vlatools.sim.main import main as sim_main

    raise typer.Exit(sim_main(["--scene", task.value, "--seed", str(seed), "--host", robot_ip, "--domain", domain]))


@app.command()
def serve(
    policy: Annotated[str, typer.Argument(help="A policy's name, or module:function of a function that loads one.")],
    checkpoint: Annotated[Path | None, typer.Option("--checkpoint", help="What it is loaded from; left out: the policy's own.")] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen at; 0.0.0.0 for the whole network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port; 0: any free one.")] = 8000,
) -> None:
    """Serve a policy over openpi's websocket protocol, on this machine or for the robot's. A stock openpi_client works on it too.

    The other side: policy:=remote, with the address in config/policy_server.yaml. Exit code 2 if it cannot be loaded or the port is taken.

    Example: vlatools serve lab.policies:load_pi05 --checkpoint checkpoints/pi05 --host 0.0.0.0
    """
    from vlatools.commands.serve import run_serve

    raise typer.Exit(run_serve(console, policy, checkpoint, host, port))


@app.command()
def doctor(
    sim: Annotated[bool, typer.Option("--sim", help="Check only what the simulation needs.")] = False,
    robot_ip: RobotIp = "172.16.0.2",
    camera_serial: CameraSerial = "",
) -> None:
    """Check this machine: Python, ROS, interfaces, libraries, rendering, robot, camera, calibration, ports. Exit code 1 if a check fails.

    Example: vlatools doctor --robot-ip 172.16.0.2
    """
    from vlatools.commands.doctor import doctor as run_doctor
    from vlatools.nodes.table import Arguments

    raise typer.Exit(run_doctor(console, Arguments(sim=sim, robot_ip=robot_ip, camera_serial=camera_serial)))


@trial_app.command("list")
def trial_list(trials: TrialsRoot = Path("trials")) -> None:
    """List recorded trials, newest first."""
    from vlatools.trials.tables import list_trials

    console.print(list_trials(trials))


@trial_app.command("show")
def trial_show(
    trial: Annotated[str, typer.Argument(help="A trial's folder, or its name or id below --trials; 'last' for the newest.")],
    trials: TrialsRoot = Path("trials"),
) -> None:
    """Show one trial: outcome, verdicts, every invocation, the recording."""
    from vlatools.trials.record import find_trial
    from vlatools.trials.tables import show_trial

    console.print(show_trial(find_trial(trials, trial).path))


@trial_app.command("report")
def trial_report(
    trial: Annotated[str, typer.Argument(help="A trial's folder, or its name or id below --trials; 'last' for the newest.")],
    trials: TrialsRoot = Path("trials"),
) -> None:
    """Write a trial's report.html again, e.g. after a bag was repaired.

    Example: vlatools trial report last
    """
    from vlatools.trials.record import find_trial
    from vlatools.trials.report import write_report

    console.print(str(write_report(find_trial(trials, trial).path)), markup=False, highlight=False, soft_wrap=True)


@trial_app.command("judge")
def trial_judge(
    trial: Annotated[str, typer.Argument(help="A trial's folder, or its name or id below --trials; 'last' for the newest.")],
    success: Annotated[bool, typer.Option("--success/--failure", help="What you saw.", show_default=False)],
    by: Annotated[str, typer.Option("--by", help="Who says so.")],
    remark: Annotated[str, typer.Option("--remark", help="What went wrong, or right.")] = "",
    trials: TrialsRoot = Path("trials"),
) -> None:
    """Add an operator's verdict to a trial of the real robot; it stands beside what the planner claimed.

    Example: vlatools trial judge last --failure --by "A. Person" --remark "the cube lay on the rim"
    """
    from vlatools.trials.judge import operator_verdict
    from vlatools.trials.record import add_verdict, find_trial
    from vlatools.trials.report import write_report

    found = find_trial(trials, trial)
    add_verdict(found.path, operator_verdict(success, found.claimed, by, remark))
    console.print(str(write_report(found.path)), markup=False, highlight=False, soft_wrap=True)


@bag_app.command("info")
def bag_info(bag: Annotated[Path, typer.Argument(help="A bag folder, a trial folder or an .mcap file.")]) -> None:
    """Show what a bag holds: topics, counts, rates, gaps, drops. An unclosed bag is read up to its last flush."""
    from vlatools.trials.bag_info import bag_info as read_info
    from vlatools.trials.bag_info import bag_table

    console.print(bag_table(read_info(bag)))


@bag_app.command("repair")
def bag_repair(bag: Annotated[Path, typer.Argument(help="A bag folder, a trial folder or an .mcap file.")]) -> None:
    """Mend a bag whose writer was killed: every intact message is kept, index and metadata are added. A sound bag stays as it is."""
    from vlatools.trials.bag_info import bag_table
    from vlatools.trials.repair import repair_bag

    console.print(bag_table(repair_bag(bag)))


def main() -> None:
    """Entry point: errors made on purpose, and those of files and disks, are one clear line, exit code 2."""
    try:
        app()
    except (VlatoolsError, OSError) as error:
        errors.print(f"vlatools: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
