"""Taps: raw subscriptions that follow what the graph publishes, with its type and quality of service."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription

from vlatools.trials.bag_metadata import TopicQos
from vlatools.trials.schemas import TypeSchema, UnknownType, schema


@dataclass(frozen=True)
class Tap:
    """A topic that is being listened to."""

    topic: str
    schema: TypeSchema
    qos: TopicQos
    subscription: Subscription


class Taps:
    """Subscribes, unserialised, to each wanted topic as soon as somebody publishes it; one that nobody publishes stays empty.

    Args:
        node: its owner; use from the executor's thread only.
        receive: called with (tap, serialised message).
        depth: queue of each subscription.
    """

    def __init__(self, node: Node, receive: Callable[[Tap, bytes], None], depth: int) -> None:
        self._node = node
        self._receive = receive
        self._depth = depth
        self._taps: dict[str, Tap] = {}
        self._refused: set[tuple[str, str]] = set()

    def __getitem__(self, topic: str) -> Tap:
        return self._taps[topic]

    @property
    def open(self) -> tuple[Tap, ...]:
        """What is being listened to."""
        return tuple(self._taps.values())

    def follow(self, topics: tuple[str, ...]) -> tuple[Tap, ...]:
        """Subscribe to those of ``topics`` that have a publisher now; returns the new taps."""
        new = []
        for topic in topics:
            if topic in self._taps:
                continue
            publishers = self._node.get_publishers_info_by_topic(topic)
            if not publishers:
                continue
            profiles = [publisher.qos_profile for publisher in publishers]
            qos = TopicQos(
                reliable=all(p.reliability == ReliabilityPolicy.RELIABLE for p in profiles),
                latched=all(p.durability == DurabilityPolicy.TRANSIENT_LOCAL for p in profiles),
                depth=max(1, self._depth),
            )
            tap = self._subscribe(topic, publishers[0].topic_type, qos)
            if tap is not None:
                self._taps[topic] = tap
                new.append(tap)
        return tuple(new)

    def release(self, topics: tuple[str, ...]) -> None:
        """Unsubscribe."""
        for topic in topics:
            tap = self._taps.pop(topic, None)
            if tap is not None:
                self._node.destroy_subscription(tap.subscription)

    def _subscribe(self, topic: str, type_name: str, qos: TopicQos) -> Tap | None:
        try:
            found = schema(type_name)
            package, _, name = type_name.split("/")
            kind = getattr(importlib.import_module(f"{package}.msg"), name)
        except (UnknownType, ImportError, AttributeError) as error:
            if (topic, type_name) not in self._refused:
                self._refused.add((topic, type_name))
                self._node.get_logger().warning(f"{topic} is not recorded, its type {type_name} is not installed: {error}")
            return None
        profile = QoSProfile(
            depth=qos.depth,
            reliability=ReliabilityPolicy.RELIABLE if qos.reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if qos.latched else DurabilityPolicy.VOLATILE,
        )

        def callback(data: Any) -> None:
            self._receive(self._taps[topic], bytes(data))

        subscription = self._node.create_subscription(kind, topic, callback, profile, raw=True)
        return Tap(topic, found, qos, subscription)
