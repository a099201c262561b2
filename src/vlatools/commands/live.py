"""A running task on the terminal: the plan with its current invocation, progress, verdict and rates; plain lines without a terminal."""

from __future__ import annotations

import math
import time
from collections import deque

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from vlatools_interfaces.msg import AgentEvent, ArmState, Plan, PlanStep, ToolProgress

from vlatools.nodes.graph_client import GraphClient

_MARKS = {
    PlanStep.PENDING: ("·", "dim"),
    PlanStep.RUNNING: ("▶", "bold cyan"),
    PlanStep.DONE: ("✓", "green"),
    PlanStep.FAILED: ("✗", "red"),
}
_VERDICTS = {
    ToolProgress.CONTINUE: ("going on", "cyan"),
    ToolProgress.ADVANCE: ("complete", "green"),
    ToolProgress.REPLAN: ("stagnating", "yellow"),
    ToolProgress.TIMEOUT: ("timeout", "red"),
}
_MODES = {
    getattr(ArmState, name): name
    for name in ("DISCONNECTED", "IDLE", "MOVING", "STREAMING", "RECOVERING", "REFLEX", "USER_STOPPED", "STOPPED")
}
_REFRESH_HZ = 5
_MAX_STEPS = 14


class LiveView:
    """Shows a task until it is closed. Context manager; call ``update`` a few times a second."""

    def __init__(self, console: Console, client: GraphClient, title: str, limit_s: float) -> None:
        self._console = console
        self._client = client
        self._title = title
        self._limit_s = limit_s
        self._begin_s = time.monotonic()
        self._events: deque[AgentEvent] = deque()
        self._live = (
            Live(self._render(), console=console, refresh_per_second=_REFRESH_HZ, transient=False) if console.is_terminal else None
        )

    def __enter__(self) -> LiveView:
        if self._live is not None:
            self._live.__enter__()
        else:
            self._client.on_event = self._events.append
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.update(self._render())
            self._live.__exit__(None, None, None)
        else:
            self._client.on_event = None
            self._say_new()

    def update(self) -> None:
        """Show what is new."""
        if self._live is not None:
            self._live.update(self._render())
        else:
            self._say_new()

    # -- plain lines ----------------------------------------------------------------------------------------------------

    def _say_new(self) -> None:
        while self._events:
            event = self._events.popleft()
            line = f"[{time.monotonic() - self._begin_s:6.1f} s] {event.kind}: {event.message}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    # -- screen ---------------------------------------------------------------------------------------------------------

    def _render(self) -> RenderableType:
        elapsed = time.monotonic() - self._begin_s
        over = elapsed > self._limit_s > 0
        clock = Text(f"{elapsed:5.1f} s", style="red" if over else "bold")
        if self._limit_s > 0:
            clock.append(f" of {self._limit_s:.0f} s", style="dim")
        parts: list[RenderableType] = [self._plan(), self._progress(), self._rates()]
        return Panel(Group(*parts), title=Text(self._title, style="bold"), subtitle=clock, border_style="cyan", padding=(0, 1))

    def _plan(self) -> RenderableType:
        plan = self._client.seen.plan
        if plan is None or not plan.steps:
            return Text("looking at the table and making a plan ...", style="dim")
        table = Table.grid(padding=(0, 1))
        begin = max(0, min(plan.current - _MAX_STEPS // 2, len(plan.steps) - _MAX_STEPS))
        for number, step in list(enumerate(plan.steps, 1))[begin : begin + _MAX_STEPS]:
            mark, style = _MARKS.get(step.status, ("?", "dim"))
            again = f"  attempt {step.attempts}" if step.attempts > 1 else ""
            cells = ((f"{number:2d}", "dim"), (mark, style), (step.family, style), (step.instruction + again, style))
            table.add_row(*(Text(text, style=look) for text, look in cells))
        head = Text(f"plan {self._generation(plan)}", style="dim")
        return Group(head, table)

    @staticmethod
    def _generation(plan: Plan) -> str:
        done = sum(step.status == PlanStep.DONE for step in plan.steps)
        return f"generation {plan.generation}, {done} of {len(plan.steps)} invocations done"

    def _progress(self) -> RenderableType:
        sample = self._client.seen.progress
        row = Table.grid(padding=(0, 1))
        if sample is None:
            row.add_row(Text("progress", style="dim"), ProgressBar(total=1.0, completed=0.0, width=40), Text("waiting", style="dim"))
            return row
        verdict, style = _VERDICTS.get(sample.verdict, ("?", "dim"))
        value = sample.smoothed if math.isfinite(sample.smoothed) else 0.0
        row.add_row(
            Text(f"{sample.family:<8}", style="bold"),
            ProgressBar(total=1.0, completed=value, width=40),
            Text(f"{value:4.0%}"),
            Text(verdict, style=style),
            Text(sample.phase, style="dim"),
        )
        return row

    def _rates(self) -> RenderableType:
        arm = self._client.seen.arm
        text = Text(style="dim")
        text.append(f"joints {self._client.joint_rate.hz:4.1f} Hz   camera {self._client.camera_rate.hz:4.1f} Hz")
        if arm is not None:
            mode = _MODES.get(arm.mode, "?")
            text.append(f"   arm {mode}", style="" if arm.ready else "yellow")
            if math.isfinite(arm.gripper_width):
                text.append(f"   gripper {arm.gripper_width * 1000:2.0f} mm{' holding' if arm.gripper_holding else ''}")
            if arm.stream_clips:
                text.append(f"   clips {arm.stream_clips}", style="yellow")
        return text
