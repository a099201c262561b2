"""``vlatools serve``: a policy behind openpi's websocket protocol, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from rich.console import Console

from vlatools.policy.openpi import PolicyServer
from vlatools.policy.served import open_served


def run_serve(console: Console, policy: str, checkpoint: Path | None, host: str, port: int) -> int:
    """Load and serve; returns the exit code. Raises ConfigError before anything listens, OSError when the address is taken."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    say(f"loading {policy} ...")
    server = PolicyServer(open_served(policy, checkpoint), host, port)

    def ready(address: str, bound: int) -> None:
        manifest = server.manifest
        say(f"serving {manifest.name} {manifest.version} on ws://{address}:{bound} (GET /healthz answers OK); Ctrl-C ends it")
        say(f"families: {', '.join(str(family) for family in manifest.families)}; progress: {'yes' if manifest.progress else 'no'}")
        say(f"statistics_hash: {manifest.statistics_hash}")

    async def until_signal() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await server.run(stop, ready)

    asyncio.run(until_signal())
    say("ended")
    return 0
