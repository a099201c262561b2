"""What training asks of the network: the demonstrated actions, the progress, and the points that hindsight tells."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from vlatools.policy.tiny.network import Output
from vlatools.policy.tiny.transform import CELL
from vlatools.tapt.batches import Batch

PROGRESS_WEIGHT = 0.1  # the paper's lambda
_POINT_WEIGHT, _ATTENTION_WEIGHT, _TURN_WEIGHT = 1.0, 0.05, 0.2
_NEAR = 0.12  # scaled metres (2.4 cm): how near to a point a cell must be to belong to it


def losses(output: Output, batch: Batch) -> dict[str, Tensor]:
    """Each loss, and ``total``."""
    action = (output.actions - batch.actions).abs().mean()
    progress = functional.mse_loss(output.progress, batch.progress)
    told = torch.isfinite(batch.goals).all(-1)  # (B, 3)
    goals = torch.where(told[..., None], batch.goals, torch.zeros_like(batch.goals))
    point = ((output.points - goals).abs().sum(-1) * told).sum() / told.sum().clamp(min=1)
    cell = batch.points[:, :, CELL // 2 :: CELL, CELL // 2 :: CELL].flatten(2)
    distance = (cell[:, None, :3] - goals[..., None]).pow(2).sum(2).masked_fill(cell[:, None, 3] < 0.5, 1e4)  # (B, 3, cells)
    wanted = torch.exp(-distance / (2 * _NEAR**2)) + 1e-9
    seen = (wanted.sum(-1) > 1e-2) & told  # the point is not hidden
    wanted = wanted / wanted.sum(-1, keepdim=True)
    attention = (-(wanted * output.attention).sum(-1) * seen).sum() / seen.sum().clamp(min=1)
    turn = (output.turn - batch.turn).abs().mean()
    total = action + PROGRESS_WEIGHT * progress + _POINT_WEIGHT * point + _ATTENTION_WEIGHT * attention + _TURN_WEIGHT * turn
    return {"total": total, "action": action, "progress": progress, "point": point, "attention": attention, "turn": turn}
