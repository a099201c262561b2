"""Our server with the stock client, and with clients that come, go and misbehave."""

from __future__ import annotations

import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.policy.serving import HORIZON, Lifter, manifest, served
from vlatools.core import ConfigError
from vlatools.policy.openpi import PolicyServer
from vlatools.policy.openpi.codec import pack, unpack
from vlatools.policy.openpi.server import REQUEST

STATE = np.array([0.4, 0.0, 0.4, 1.0, 0.0, 0.0, 0.0, 0.08, 0.0, 0.08, 0.0])


def question(elapsed: float = 0.5) -> dict:
    return {"observation/state": STATE, "tapt/elapsed_s": elapsed, "prompt": "reach the red cube"}


def test_the_stock_client_gets_manifest_actions_and_progress() -> None:
    policy = Lifter()
    with served(policy) as port:
        client = WebsocketClientPolicy("127.0.0.1", port)
        assert client.get_server_metadata() == manifest()
        reply = client.infer(question())
        client._ws.close()
    assert reply["actions"].shape == (HORIZON, 8)
    np.testing.assert_allclose(reply["progress"], 0.5)
    assert reply["server_timing"]["infer_ms"] >= 0
    assert REQUEST not in reply  # what was not asked for is not answered
    np.testing.assert_array_equal(policy.seen[0]["observation/state"], STATE)


def test_the_stock_action_broker_cuts_the_reply_by_action_even_with_a_lone_number_in_it() -> None:
    policy = Lifter()
    policy.spoil = lambda reply: reply.update(value=np.array(0.25))
    with served(policy) as port:
        client = WebsocketClientPolicy("127.0.0.1", port)
        broker = ActionChunkBroker(client, HORIZON)
        rows = [broker.infer(question()) for _ in range(HORIZON)]
        client._ws.close()
    assert len(policy.seen) == 1
    assert rows[3]["actions"].shape == (8,)
    assert rows[3]["actions"][2] == pytest.approx(0.4 + 4 * 0.002)
    assert rows[3]["value"] == 0.25


def test_inference_blocks_neither_pings_nor_health_nor_new_clients() -> None:
    """C75."""
    policy, gate = Lifter(), threading.Event()
    policy.on_infer = lambda: gate.wait(10.0)
    with served(policy) as port, connect(f"ws://127.0.0.1:{port}") as first:
        first.recv()
        first.send(pack(question()))
        assert first.ping().wait(2.0)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2.0) as answer:
            assert (answer.status, answer.read()) == (200, b"OK\n")
        with connect(f"ws://127.0.0.1:{port}") as second:
            assert unpack(second.recv(timeout=2.0))["name"] == "lifter"
        gate.set()
        assert "actions" in unpack(first.recv(timeout=2.0))


def test_several_clients_get_their_own_replies_and_the_policy_one_call_at_a_time() -> None:
    policy, inside, most = Lifter(), [], []

    def watch() -> None:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    policy.on_infer = watch
    with served(policy) as port, ThreadPoolExecutor(4) as pool:

        def work(share: float) -> list[float]:
            with connect(f"ws://127.0.0.1:{port}") as client:
                client.recv()
                got = []
                for number in range(20):
                    client.send(pack(question(share) | {REQUEST: number}))
                    reply = unpack(client.recv(timeout=5.0))
                    assert reply[REQUEST] == number
                    got.append(float(reply["progress"][0]))
                return got

        shares = (0.125, 0.25, 0.5, 0.75)
        assert list(pool.map(work, shares)) == [[share] * 20 for share in shares]
    assert max(most) == 1
    assert policy.threads == {"inference"}


def test_a_client_that_left_while_waiting_is_not_computed_for() -> None:
    policy, gate = Lifter(), threading.Event()
    policy.on_infer = lambda: gate.wait(10.0)
    with served(policy) as port, connect(f"ws://127.0.0.1:{port}") as first:
        first.recv()
        first.send(pack(question()))
        with connect(f"ws://127.0.0.1:{port}") as second:
            second.recv()
            second.send(pack(question()))
        gate.set()
        first.recv(timeout=2.0)
        first.send(pack(question()))
        first.recv(timeout=2.0)
    assert len(policy.seen) == 2


def test_an_error_is_a_text_frame_for_its_client_only() -> None:
    policy = Lifter()

    def boom() -> None:
        if policy.seen[-1]["prompt"] == "boom":
            raise ZeroDivisionError("in the head")

    policy.on_infer = boom
    with served(policy) as port:
        bad, good = (WebsocketClientPolicy("127.0.0.1", port) for _ in range(2))
        with pytest.raises(RuntimeError, match="ZeroDivisionError: in the head"):
            bad.infer(question() | {"prompt": "boom"})
        with pytest.raises(ConnectionClosed) as closed:
            bad.infer(question())
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011
        assert "actions" in good.infer(question())
        good._ws.close()


@pytest.mark.parametrize("message", [b"\x93nonsense", "text", pack({})], ids=["no msgpack", "text frame", "keys missing"])
def test_a_message_that_is_no_observation_is_answered_with_an_error(message: str | bytes) -> None:
    with served(Lifter()) as port, connect(f"ws://127.0.0.1:{port}") as client:
        client.recv()
        client.send(message)
        text = client.recv(timeout=2.0)
        assert isinstance(text, str) and "Error" in text


def test_a_page_in_a_browser_is_turned_away() -> None:
    with served(Lifter()) as port, pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://127.0.0.1:{port}", origin="http://example.org")  # type: ignore[arg-type]


def test_a_stop_lets_the_running_inference_finish_and_then_goes_away() -> None:
    policy, begun = Lifter(), threading.Event()
    policy.on_infer = lambda: (begun.set(), time.sleep(0.3))  # type: ignore[assignment]
    with served(policy) as port:
        client = connect(f"ws://127.0.0.1:{port}")
        client.recv()
        client.send(pack(question()))
        assert begun.wait(2.0)
    assert "actions" in unpack(client.recv(timeout=1.0))
    with pytest.raises(ConnectionClosed) as closed:
        client.recv(timeout=1.0)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001


def test_a_policy_that_would_be_refused_is_not_served() -> None:
    with pytest.raises(ConfigError, match="quaternion_order is 'wxyz'"):
        PolicyServer(Lifter(quaternion_order="wxyz"))
