"""Figures of a report as inline SVG: progress curves, the arm's path from above and from the side, arm quantities over time.

Colours come from the page's style sheet by class, so that the figures follow light and dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from vlatools.trials.report_data import ArmSample, Call, TrialData

FAMILIES = ("reach", "grasp", "move", "release", "pull", "push", "rotate")
GLYPHS = {"advance": "complete", "replan": "stagnating", "timeout": "time is up"}
DEFAULT_THRESHOLD = 0.9
_SIDE_HEIGHT = 0.30
_WORKSPACE = ((0.30, 0.70), (-0.22, 0.22))
_CUBE_M, _BOWL_M, _BOWL_HEIGHT_M = 0.04, 0.132, 0.045

Point3 = tuple[float, float, float]


def family_class(family: str) -> str:
    """CSS class of a family; primitives and unknown ones are muted."""
    return f"f-{family}" if family in FAMILIES else "f-other"


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round tick values within [low, high], about ``about`` of them."""
    span = max(high - low, 1e-9)
    raw = span / max(1, about)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
    return [round(i * step, 10) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def progress_curve(call: Call) -> str:
    """Raw and smoothed progress over the invocation's own time, with threshold and verdict."""
    width, height, left, right, top, bottom = 300, 132, 26, 10, 10, 20
    end = max([s.t - call.start for s in call.samples] + [(call.end or call.start) - call.start, 0.1])

    def x(t: float) -> float:
        return left + (width - left - right) * min(1.0, max(0.0, t / end))

    def y(p: float) -> float:
        return top + (height - top - bottom) * (1 - min(1.0, max(0.0, p)))

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="progress of {escape(call.instruction)}">']
    for level in (0.0, 0.5, 1.0):
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y(level):.1f}" y2="{y(level):.1f}"/>')
        parts.append(f'<text class="tick end" x="{left - 5}" y="{y(level) + 3.5:.1f}">{level:g}</text>')
    for t in ticks(0, end, 4):
        parts.append(f'<text class="tick mid" x="{x(t):.1f}" y="{height - 6}">{t:g} s</text>')
    tau = call.threshold or DEFAULT_THRESHOLD
    parts.append(f'<line class="tau" x1="{left}" x2="{width - right}" y1="{y(tau):.1f}" y2="{y(tau):.1f}"/>')
    name = family_class(call.family)
    raw = [(x(s.t - call.start), y(s.progress)) for s in call.samples if math.isfinite(s.progress)]
    smooth = [(x(s.t - call.start), y(s.smoothed)) for s in call.samples if math.isfinite(s.smoothed)]
    if len(smooth) > 1:
        area = f"{_points(smooth)} {smooth[-1][0]:.1f},{y(0):.1f} {smooth[0][0]:.1f},{y(0):.1f}"
        parts.append(f'<polygon class="area {name}" points="{area}"/>')
    if len(raw) > 1:
        parts.append(f'<polyline class="raw {name}" points="{_points(raw)}"/>')
    if len(smooth) > 1:
        parts.append(f'<polyline class="line {name}" points="{_points(smooth)}"/>')
    last = next((s for s in reversed(call.samples) if s.verdict != "continue"), None)
    if last is not None:
        parts.append(verdict_mark(x(last.t - call.start), y(last.smoothed), last.verdict))
    elif call.outcome and call.outcome != "COMPLETED":
        u, v = smooth[-1] if smooth else (x(end), y(0))
        parts.append(verdict_mark(u, v, "timeout"))
    return "".join([*parts, "</svg>"])


def verdict_mark(x: float, y: float, verdict: str) -> str:
    """A disc with a sign: check mark, loop (replan) or cross."""
    signs = {
        "advance": ("good", "M-4,0 L-1,3 L4,-3.2"),
        "replan": ("warn", "M3.4,-2.2 A4,4 0 1 0 4,1.2 M4.4,-4.2 L3.6,-1.6 L1,-2.4"),
    }
    name, path = signs.get(verdict, ("bad", "M-3,-3 L3,3 M3,-3 L-3,3"))
    title = GLYPHS.get(verdict, verdict)
    return (
        f'<g class="mark {name}" transform="translate({x:.1f},{y:.1f})"><title>{escape(title)}</title>'
        f'<circle r="8"/><path d="{path}"/></g>'
    )


def path_above(data: TrialData) -> str:
    """The arm's path from above, as seen from the robot's base: +x is up, +y is left."""
    scale = 900
    xs, ys = _ranges(data)

    def px(p: Sequence[float]) -> tuple[float, float]:
        return (ys[1] - p[1]) * scale, (xs[1] - p[0]) * scale

    width, height = (ys[1] - ys[0]) * scale, (xs[1] - xs[0]) * scale
    parts = [f'<svg viewBox="-34 -8 {width + 42:.0f} {height + 34:.0f}" role="img" aria-label="path from above">']
    for value in ticks(*xs, 6):
        u, v = px((value, ys[1]))
        parts.append(f'<line class="grid" x1="0" x2="{width:.0f}" y1="{v:.0f}" y2="{v:.0f}"/>')
        parts.append(f'<text class="tick end" x="{u - 6:.0f}" y="{v + 4:.0f}">{value:g}</text>')
    for value in ticks(*ys, 8):
        u, v = px((xs[0], value))
        parts.append(f'<line class="grid" x1="{u:.0f}" x2="{u:.0f}" y1="0" y2="{height:.0f}"/>')
        parts.append(f'<text class="tick mid" x="{u:.0f}" y="{v + 16:.0f}">{value:g}</text>')
    (x0, x1), (y0, y1) = _WORKSPACE
    (u0, v0), (u1, v1) = px((x1, y1)), px((x0, y0))
    parts.append(
        f'<rect class="space" x="{u0:.0f}" y="{v0:.0f}" width="{u1 - u0:.0f}" height="{v1 - v0:.0f}" rx="6"/>'
    )
    first, last = _first_last(data)
    for name, point in first.items():
        parts.append(_object_above(name, *px(point), _extent(data, name) * scale, "was"))
    for name, point in last.items():
        parts.append(_object_above(name, *px(point), _extent(data, name) * scale, "is"))
    parts += _path(data, px)
    for name, point in last.items():
        bowls = [place for other, place in last.items() if "bowl" in other and other != name]
        if any(math.dist(point[:2], place[:2]) < 0.05 for place in bowls):
            continue  # its colour says what lies in the bowl; two names over each other say nothing
        u, v = px(point)
        parts.append(f'<text class="name mid" x="{u:.0f}" y="{v + _extent(data, name) * scale / 2 + 17:.0f}">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])


def path_aside(data: TrialData) -> str:
    """The arm's path from the side: x to the right, z up, table at 0."""
    scale = 900
    xs, _ = _ranges(data)
    top = max([_SIDE_HEIGHT, *(sample.position[2] + 0.03 for sample in data.arm)])

    def px(p: Sequence[float]) -> tuple[float, float]:
        return (p[0] - xs[0]) * scale, (top - p[2]) * scale

    width, height = (xs[1] - xs[0]) * scale, top * scale
    parts = [f'<svg viewBox="-34 -8 {width + 42:.0f} {height + 48:.0f}" role="img" aria-label="path from the side">']
    for value in ticks(0, top, 6):
        _, v = px((xs[0], 0, value))
        parts.append(f'<line class="grid" x1="0" x2="{width:.0f}" y1="{v:.0f}" y2="{v:.0f}"/>')
        parts.append(f'<text class="tick end" x="-6" y="{v + 4:.0f}">{value:g}</text>')
    for value in ticks(*xs, 6):
        u, _ = px((value, 0, 0))
        parts.append(f'<text class="tick mid" x="{u:.0f}" y="{height + 30:.0f}">{value:g}</text>')
    parts.append(f'<rect class="table" x="0" y="{height:.0f}" width="{width:.0f}" height="12" rx="3"/>')
    first, last = _first_last(data)
    for scene, state in ((first, "was"), (last, "is")):
        for name, (x, _, z) in scene.items():
            size = _extent(data, name)
            tall = data.sizes[name][2] if name in data.sizes else (_BOWL_HEIGHT_M if "bowl" in name else size)
            u, v = px((x - size / 2, 0, z + tall / 2))
            parts.append(
                f'<rect class="obj {state} {_color_class(name)}" x="{u:.0f}" y="{v:.0f}" width="{size * scale:.0f}" '
                f'height="{tall * scale:.0f}" rx="4"><title>{escape(name)}</title></rect>'
            )
    parts += _path(data, px)
    return "".join([*parts, "</svg>"])


def arm_lanes(data: TrialData) -> str:
    """Height, gripper opening and external force over time, with the invocations shaded behind."""
    if len(data.arm) < 2:
        return ""
    width, left, lane, gap = 1000, 44, 62, 20
    end = max(data.duration, 0.1)
    lanes = (
        ("height", "m", [s.position[2] for s in data.arm], 0.0),
        ("opening", "mm", [s.width * 1000 for s in data.arm], 0.0),
        ("force", "N", [s.force for s in data.arm], 0.0),
    )

    def x(t: float) -> float:
        return left + (width - left - 6) * t / end

    height = len(lanes) * (lane + gap) + 20
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="arm over time">']
    for call in data.calls:
        if call.primitive:
            continue
        u0, u1 = x(call.start), x(call.end if call.end is not None else end)
        parts.append(
            f'<rect class="shade {family_class(call.family)}" x="{u0:.1f}" y="0" width="{max(1.0, u1 - u0 - 1):.1f}" '
            f'height="{height - 20}"><title>{escape(call.instruction)}</title></rect>'
        )
    stride = max(1, len(data.arm) // 1200)
    for row, (name, unit, values, floor) in enumerate(lanes):
        base = row * (lane + gap) + gap
        finite = [v for v in values if math.isfinite(v)]
        high = max([*finite, floor + 1e-3]) * 1.05

        def y(value: float, base: int = base, high: float = high) -> float:
            return base + lane * (1 - max(0.0, value) / high)

        points = [
            (x(s.t), y(v)) for s, v in list(zip(data.arm, values, strict=True))[::stride] if math.isfinite(v)
        ]
        parts.append(f'<line class="grid" x1="{left}" x2="{width - 6}" y1="{base + lane}" y2="{base + lane}"/>')
        parts.append(f'<polyline class="lane" points="{_points(points)}"/>')
        parts.append(f'<text class="lanename" x="{left}" y="{base - 5}">{name}, {unit}</text>')
        parts.append(f'<text class="tick end" x="{left - 6}" y="{base + 8}">{high / 1.05:.3g}</text>')
        parts.append(f'<text class="tick end" x="{left - 6}" y="{base + lane + 4}">0</text>')
    for t in ticks(0, end, 10):
        parts.append(f'<text class="tick mid" x="{x(t):.1f}" y="{height - 4}">{t:g} s</text>')
    for note in data.notes:
        if note.kind == "fault":
            u = x(note.t)
            title = f"<title>{escape(note.message)}</title>"
            parts.append(f'<line class="fault" x1="{u:.1f}" x2="{u:.1f}" y1="0" y2="{height - 20}">{title}</line>')
    return "".join([*parts, "</svg>"])


def _path(data: TrialData, px: object) -> list[str]:
    """The path in pieces: one per invocation in its family's colour, the rest muted."""
    if not callable(px) or not data.arm:
        return []
    parts, begin = [], data.arm[0].t - 1e-6
    for call in [c for c in data.calls if not c.primitive]:
        end = call.end if call.end is not None else data.duration
        parts.append(_piece(data.arm_between(begin, call.start), px, "f-other", ""))
        parts.append(_piece(data.arm_between(call.start, end), px, family_class(call.family), call.instruction))
        begin = end
    parts.append(_piece(data.arm_between(begin, data.duration), px, "f-other", ""))
    for sample, name in ((data.arm[0], "start"), (data.arm[-1], "end")):
        u, v = px(sample.position)
        parts.append(f'<circle class="dot {name}" cx="{u:.1f}" cy="{v:.1f}" r="7"><title>{name}</title></circle>')
    return parts


def _piece(samples: Sequence[ArmSample], px: object, name: str, title: str) -> str:
    if len(samples) < 2 or not callable(px):
        return ""
    kept = [*samples[:-1:2], samples[-1]]
    return f'<polyline class="track {name}" points="{_points(px(s.position) for s in kept)}"><title>{escape(title)}</title></polyline>'


def _object_above(name: str, u: float, v: float, size: float, state: str) -> str:
    title = f"<title>{escape(name)}</title>"
    style = f"obj {state} {_color_class(name)}"
    if "bowl" in name:
        inner = f'<circle class="inner" cx="{u:.0f}" cy="{v:.0f}" r="{size * 0.34:.0f}"/>' if state == "is" else ""
        return f'<circle class="{style}" cx="{u:.0f}" cy="{v:.0f}" r="{size / 2:.0f}">{title}</circle>{inner}'
    return (
        f'<rect class="{style}" x="{u - size / 2:.0f}" y="{v - size / 2:.0f}" width="{size:.0f}" height="{size:.0f}" rx="4">'
        f"{title}</rect>"
    )


def _color_class(name: str) -> str:
    known = ("red", "yellow", "blue", "green")
    return "o-" + next((color for color in known if color in name.split()), "plain")


def _extent(data: TrialData, name: str) -> float:
    if name in data.sizes:
        return data.sizes[name][0]
    return _BOWL_M if "bowl" in name else _CUBE_M


def _first_last(data: TrialData) -> tuple[dict[str, Point3], dict[str, Point3]]:
    if not data.scenes:
        return {}, {}

    def big_first(scene: dict[str, Point3]) -> dict[str, Point3]:
        return dict(sorted(scene.items(), key=lambda item: ("bowl" not in item[0], item[1][2])))

    return big_first(data.scenes[0][1]), big_first(data.scene_at(math.inf))


def _ranges(data: TrialData) -> tuple[tuple[float, float], tuple[float, float]]:
    (x0, x1), (y0, y1) = _WORKSPACE
    points: list[Sequence[float]] = [sample.position for sample in data.arm]
    for _, scene in data.scenes:
        points += list(scene.values())
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return (
        (min([x0 - 0.02, *(v - 0.04 for v in xs)]), max([x1 + 0.02, *(v + 0.04 for v in xs)])),
        (min([y0 - 0.04, *(v - 0.04 for v in ys)]), max([y1 + 0.04, *(v + 0.04 for v in ys)])),
    )


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
