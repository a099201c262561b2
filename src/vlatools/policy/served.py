"""Policies that `vlatools serve` knows, each imported only when it is served: they bring their own heavy libraries."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from vlatools.core import ConfigError
from vlatools.policy.openpi import ServedPolicy

SERVED: dict[str, str] = {}  # name -> module:function


def open_served(policy: str, checkpoint: Path | None) -> ServedPolicy:
    """Load a policy to serve.

    Args:
        policy: a name in ``SERVED``, or ``module:function`` of a function that takes the checkpoint and returns a ServedPolicy.
        checkpoint: folder or file that it is loaded from; None for the policy's own default.

    Raises:
        ConfigError: there is no such policy, or it cannot be imported here.
    """
    spec = SERVED.get(policy, policy)
    module, _, function = spec.partition(":")
    if not function:
        known = "".join(f"{name}, " for name in SERVED)
        raise ConfigError(f"policy to serve is {policy!r}: give {known}or module:function of your own, e.g. lab.policies:load_pi05")
    try:
        load = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"policy {policy!r} cannot be loaded here: {error}; is this the environment that it was set up in?") from error
    served = load(checkpoint)
    if not (hasattr(served, "manifest") and callable(getattr(served, "infer", None))):
        raise ConfigError(f"{spec} returned a {type(served).__name__} without manifest and infer(observation): see ServedPolicy")
    return cast(ServedPolicy, served)
