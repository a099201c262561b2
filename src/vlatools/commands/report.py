"""The last lines of a trial on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from vlatools.commands.task import TaskEnd
from vlatools.core import VlatoolsError
from vlatools.trials.record import REPORT
from vlatools.trials.report import write_report


def announce(console: Console, end: TaskEnd) -> None:
    """Say how the trial ended and where it is. The recorder has made the report, unless it died."""
    console.print(
        Text.assemble(
            ("SUCCESS " if end.success else "FAILURE ", "bold green" if end.success else "bold red"),
            f"{end.outcome.value} after {end.duration_s:.1f} s, {end.invocations} invocations, {end.replans} replans",
        )
    )
    if end.message:
        console.print(end.message, markup=False, highlight=False, soft_wrap=True)
    if end.verdict is not None:
        console.print(f"physical state: {end.verdict.message}", markup=False, highlight=False, soft_wrap=True)
    if end.recording:
        console.print(f"recording: {end.recording}", style="red", markup=False, soft_wrap=True)
    if end.folder is not None:
        if not (end.folder / REPORT).is_file():
            try:
                write_report(end.folder)
            except (VlatoolsError, OSError) as error:
                console.print(f"no report: {error}", style="red", markup=False, soft_wrap=True)
        console.print(f"trial: {end.folder}", markup=False, highlight=False, soft_wrap=True)
        if (end.folder / REPORT).is_file():
            console.print(f"report: {end.folder / REPORT}", markup=False, highlight=False, soft_wrap=True)
