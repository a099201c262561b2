"""The simulation's process: ``python -m vlatools.sim.main --scene simple --seed 0``."""

from __future__ import annotations

import argparse
import gc
import logging
import signal
import sys
import threading

from vlatools.core import ConfigError
from vlatools.signals import stop_on
from vlatools.sim.control import ControlServer, default_address
from vlatools.sim.franky_server import SimServer
from vlatools.sim.scene import load_scene

DEFAULT_HOST = "127.0.0.5"
_LOG = logging.getLogger(__name__)


def run(
    scene: str = "simple",
    seed: int = 0,
    host: str = DEFAULT_HOST,
    control: str = "",
    domain: str = "default",
    until: threading.Event | None = None,
) -> None:
    """Serve a simulated lab until SIGTERM or SIGINT (or ``until``).

    Args:
        scene: name of a scene in config/scenes, or path of a YAML file.
        seed: instance of the scene.
        host: address that plays the robot.
        control: address for judges and tests, see :mod:`vlatools.sim.control`; "" takes the domain's own.
        domain: name under which the state is shared with the simulated camera.
        until: ends the simulation; signals are then left to the caller.

    Raises:
        ConfigError: unknown scene, or an address that is taken.
    """
    stop = until or stop_on(signal.SIGTERM, signal.SIGINT)
    sim = SimServer(load_scene(scene), seed, host, domain)
    try:
        server = ControlServer(sim, control or default_address(domain))
        try:
            # A collection in the middle of a step would be a late packet.
            gc.collect()
            gc.freeze()
            print(f"simulated FR3 at {host}, scene {scene}, seed {seed}, domain {domain}", flush=True)
            sim.run(stop)
        finally:
            server.close()
    finally:
        sim.close()


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit code 2 for a configuration that is wrong."""
    parser = argparse.ArgumentParser(prog="vlatools-sim", description="A simulated FR3 with table and camera, served like a robot.")
    parser.add_argument("--scene", default="simple", help="scene in config/scenes, or path of a YAML file (default: simple)")
    parser.add_argument("--seed", type=int, default=0, help="instance of the scene (default: 0)")
    parser.add_argument("--host", default=DEFAULT_HOST, help=f"address that plays the robot (default: {DEFAULT_HOST})")
    parser.add_argument("--control", default="", help="unix:/path or host:port for judges and tests (default: by domain)")
    parser.add_argument("--domain", default="default", help="name of the state shared with the camera (default: default)")
    parser.add_argument("--verbose", action="store_true", help="log connections and reflexes")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING, format="sim: %(message)s")
    try:
        run(options.scene, options.seed, options.host, options.control, options.domain)
    except ConfigError as error:
        print(f"vlatools sim: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
