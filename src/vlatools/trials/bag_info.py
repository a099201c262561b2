"""What is in a bag: counts, rates, gaps, drops, duration, as data and as a table for the terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from vlatools.trials.bag_read import BagReader

_TYPES_FROM_WIDTH = 110


@dataclass(frozen=True)
class TopicStats:
    """One topic of a bag.

    Attributes:
        name, type: as recorded.
        count: messages in the file.
        rate_hz: mean rate between its first and last message; 0 for fewer than two.
        longest_gap_s: longest time between two of its messages; 0 for fewer than two.
        dropped: messages that came and are not in the file (as metadata.yaml says).
        bytes: sum of the serialised sizes.
    """

    name: str
    type: str
    count: int
    rate_hz: float
    longest_gap_s: float
    dropped: int
    bytes: int


@dataclass(frozen=True)
class BagInfo:
    """A bag.

    Attributes:
        file: its MCAP file.
        closed: the file was ended; else ``damage`` says how it ends.
        indexed: metadata.yaml is there, so that ``ros2 bag`` reads it.
        start_ns, duration_s: receive time of the first message, and from it to the last.
        size_bytes: of the file.
        topics: sorted by name.
    """

    file: Path
    closed: bool
    damage: str
    indexed: bool
    start_ns: int
    duration_s: float
    size_bytes: int
    topics: tuple[TopicStats, ...]

    @property
    def messages(self) -> int:
        """Messages in the file."""
        return sum(topic.count for topic in self.topics)

    @property
    def dropped(self) -> int:
        """Messages that came and are not in the file."""
        return sum(topic.dropped for topic in self.topics)


@dataclass
class _Tally:
    type: str
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    gap_ns: int = 0
    bytes: int = 0

    def add(self, stamp_ns: int, size: int) -> None:
        if self.count == 0:
            self.first_ns = stamp_ns
        else:
            self.gap_ns = max(self.gap_ns, stamp_ns - self.last_ns)
        self.last_ns = stamp_ns
        self.count += 1
        self.bytes += size

    def stats(self, name: str, dropped: int) -> TopicStats:
        span = (self.last_ns - self.first_ns) * 1e-9
        rate = (self.count - 1) / span if span > 0 else 0.0
        return TopicStats(name, self.type, self.count, rate, self.gap_ns * 1e-9, dropped, self.bytes)


@dataclass
class _Span:
    first_ns: int | None = None
    last_ns: int = 0
    tallies: dict[str, _Tally] = field(default_factory=dict)


def bag_info(path: Path) -> BagInfo:
    """Read a bag through and describe it; works on an unclosed bag too. Raises BagUnreadable when there is none."""
    reader = BagReader(path)
    span = _Span()
    for channel, message in reader.records():
        if channel.topic not in span.tallies:
            span.tallies[channel.topic] = _Tally(reader.schemas[channel.schema_id].name)
        span.tallies[channel.topic].add(message.log_time, len(message.data))
        span.first_ns = message.log_time if span.first_ns is None else span.first_ns
        span.last_ns = message.log_time
    for channel in reader.channels.values():
        span.tallies.setdefault(channel.topic, _Tally(reader.schemas[channel.schema_id].name))
    metadata = _metadata(reader.file.parent / "metadata.yaml")
    dropped = {
        key.removeprefix("dropped:"): int(value)
        for key, value in ((metadata or {}).get("custom_data") or {}).items()
        if key.startswith("dropped:")
    }
    topics = tuple(tally.stats(name, dropped.get(name, 0)) for name, tally in sorted(span.tallies.items()))
    first = span.first_ns or 0
    return BagInfo(
        file=reader.file,
        closed=reader.closed,
        damage=reader.damage,
        indexed=metadata is not None,
        start_ns=first,
        duration_s=max(0, span.last_ns - first) * 1e-9,
        size_bytes=reader.file.stat().st_size,
        topics=topics,
    )


class _TopicTable:
    """The topics; a narrow terminal gets no types, so that the numbers stay whole."""

    def __init__(self, topics: tuple[TopicStats, ...]) -> None:
        self._topics = topics

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _topic_table(self._topics, types=options.max_width >= _TYPES_FROM_WIDTH)


def _topic_table(topics: tuple[TopicStats, ...], types: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("topic", overflow="fold")
    if types:
        table.add_column("type", style="dim", overflow="fold")
    for column, width in (("count", 5), ("rate", 8), ("gap", 7), ("lost", 4), ("size", 8)):
        table.add_column(column, justify="right", no_wrap=True, min_width=width)
    for topic in topics:
        several = topic.count > 1
        table.add_row(
            topic.name,
            *([topic.type.replace("/msg/", "/")] if types else []),
            str(topic.count),
            f"{topic.rate_hz:.1f} Hz" if several else "-",
            f"{topic.longest_gap_s:.2f} s" if several else "-",
            Text(str(topic.dropped), style="bold red") if topic.dropped else Text("0", style="dim"),
            _size(topic.bytes),
            style="dim" if topic.count == 0 else "",
        )
    return table


def bag_table(info: BagInfo) -> Group:
    """The description as a renderable for rich: gap is the longest between two messages, lost is what was dropped."""
    state = Text("closed and indexed", style="green")
    if not info.closed:
        state = Text(f"not closed: {info.damage} (`vlatools bag repair` mends it)", style="bold yellow")
    elif not info.indexed:
        state = Text("closed, without metadata.yaml (`vlatools bag repair` makes it)", style="bold yellow")
    head = Text.assemble((str(info.file), "bold"), "\n")
    line = f"{info.duration_s:.1f} s, {info.messages} messages, {info.dropped} dropped, {_size(info.size_bytes)}, "
    return Group(head, Text.assemble(line, state), Text(""), _TopicTable(info.topics))


def _metadata(path: Path) -> dict[str, Any] | None:
    try:
        return dict(yaml.safe_load(path.read_text(encoding="utf-8"))["rosbag2_bagfile_information"])
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"
