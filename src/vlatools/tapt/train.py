"""Trains the tiny model by imitation: broad units of all families first. Resumes from its checkpoint."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from vlatools.policy.tiny.network import GRIPPER, OBJECT, PLACE, TinyVla
from vlatools.policy.tiny.transform import SPREAD
from vlatools.tapt.batches import make_batch
from vlatools.tapt.losses import losses
from vlatools.tapt.units import Samples

_BATCH = 32
_RATE, _WARM_STEPS, _DECAY = 1.5e-3, 100, 1e-4
_SAVE_STEPS = 200


def train(
    samples: Samples, held_out: Samples, folder: Path, steps: int, seed: int = 0, say: Callable[[str], None] = print
) -> TinyVla:
    """Train for ``steps`` steps, going on where ``folder`` stopped; the result is in ``folder/last.pt``.

    Args:
        samples: to train on.
        held_out: to report on.
        folder: for checkpoints and ``log.jsonl``.
        steps: of 32 samples.
        seed: of weights, order and variation.
        say: gets a line now and then.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    model = TinyVla()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=_DECAY)
    begin, saved = 0, folder / "last.pt"
    if saved.is_file():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["step"]
    wall = time.monotonic()
    for step in range(begin, steps):
        rng = np.random.default_rng([seed, step])
        for group in optimizer.param_groups:
            group["lr"] = _RATE * min(1.0, (step + 1) / _WARM_STEPS) * 0.5 * (1 + math.cos(math.pi * step / steps))
        batch = make_batch(samples, rng.integers(0, len(samples), _BATCH), rng)
        model.train()
        found = losses(model(batch.color, batch.points, batch.words, batch.state, batch.position), batch)
        optimizer.zero_grad(set_to_none=True)
        found["total"].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % _SAVE_STEPS == 0 or step + 1 == steps:
            part = saved.with_suffix(".part")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, part)
            part.rename(saved)
            row = {"step": step + 1, "wall_s": round(time.monotonic() - wall, 1), **report(model, held_out)}
            with (folder / "log.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            say(json.dumps(row))
    return model


@torch.no_grad()
def report(model: TinyVla, samples: Samples, most: int = 512) -> dict[str, float]:
    """Losses on held-out samples, and the median error of the three points in mm."""
    model.eval()
    rows = np.random.default_rng(0).permutation(len(samples))[:most]
    sums: dict[str, float] = {}
    errors: list[list[float]] = [[], [], []]
    chunks = [rows[i : i + 64] for i in range(0, len(rows), 64)]
    for chunk in chunks:
        batch = make_batch(samples, chunk, None)
        output = model(batch.color, batch.points, batch.words, batch.state, batch.position)
        for key, value in losses(output, batch).items():
            sums[key] = sums.get(key, 0.0) + float(value) * len(chunk) / len(rows)
        distance = 1000 * SPREAD * (output.points - batch.goals).norm(dim=-1)
        for which in (OBJECT, PLACE, GRIPPER):
            column = distance[:, which]
            errors[which] += column[torch.isfinite(column)].tolist()
    names = {OBJECT: "object_mm", PLACE: "place_mm", GRIPPER: "gripper_mm"}
    medians = {name: float(np.median(errors[which])) for which, name in names.items()}
    return {key: round(value, 4) for key, value in {**sums, **medians}.items()}
