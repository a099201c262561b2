"""RosObserve against a perception server in this process: what it gives, and what it raises."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from rclpy.action import ActionServer
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from vlatools_interfaces.action import Locate

from tests.agent.fake_world import thing
from vlatools.core import ArmFault, StaleData
from vlatools.nodes import ros_observe
from vlatools.nodes.convert import detected_to_msg
from vlatools.nodes.stamps import Stamps

DOMAINS = itertools.count(78)


class Client(Node):
    """A node with stamps, as the planner is one."""

    def __init__(self) -> None:
        super().__init__("observer")
        self.stamps = Stamps(self)


@pytest.fixture
def observe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[str]], ros_observe.RosObserve]]:
    """``observe(outcomes)``: an observer whose server answers with these outcomes in turn; no server if empty."""
    monkeypatch.setattr(ros_observe, "_SERVER_S", 0.5)
    rclpy.init(domain_id=next(DOMAINS))  # a server of the test before may still be announced
    executor, stop = SingleThreadedExecutor(), threading.Event()
    thread = threading.Thread(target=lambda: [executor.spin_once(timeout_sec=0.05) for _ in iter(stop.is_set, True)])
    client = Client()

    def make(outcomes: list[str]) -> ros_observe.RosObserve:
        left = list(outcomes)

        def execute(handle: Any) -> Locate.Result:
            handle.succeed()
            result = Locate.Result(outcome=left.pop(0), message="as scripted")
            result.header.stamp = client.stamps.now()
            result.objects = [detected_to_msg(thing("red cube", 0.5, 0.1))]
            return result

        if outcomes:
            monkeypatch.setattr(ros_observe, "_SERVER_S", 10.0)
            client.server = ActionServer(client, Locate, "/perception/locate", execute)  # type: ignore[attr-defined]
        observer = ros_observe.RosObserve(client)  # type: ignore[arg-type]
        executor.add_node(client)
        thread.start()
        return observer

    try:
        yield make
    finally:
        stop.set()
        if thread.is_alive():
            thread.join()
        client.destroy_node()
        rclpy.shutdown()


def test_a_scene_comes_with_its_objects(observe: Callable[[list[str]], ros_observe.RosObserve]) -> None:
    scene = observe(["COMPLETED"])()
    assert [item.name for item in scene.objects] == ["red cube"]
    assert scene.objects[0].pose.position[0] == pytest.approx(0.5)


def test_one_stale_frame_is_tried_again(observe: Callable[[list[str]], ros_observe.RosObserve]) -> None:
    assert observe(["STALE_OBSERVATION", "COMPLETED"])().objects


@pytest.mark.parametrize(
    ("outcome", "error", "says"),
    [("STALE_OBSERVATION", StaleData, "camera"), ("FAULT", ArmFault, "locate ended FAULT: as scripted")],
)
def test_what_does_not_go_away_is_raised_by_its_name(
    outcome: str, error: type[Exception], says: str, observe: Callable[[list[str]], ros_observe.RosObserve]
) -> None:
    with pytest.raises(error, match=says):
        observe([outcome, outcome])()


def test_an_absent_server_is_named_within_a_bounded_time(
    observe: Callable[[list[str]], ros_observe.RosObserve],
) -> None:
    with pytest.raises(StaleData, match="start the perception node"):
        observe([])()
