"""The network: language finds three points in the picture (the object, the place, the gripper), geometry makes them metric,
a small transformer turns them into a chunk of actions and a progress value.

Each cell of the feature map votes for where each point is, as an offset from the measured 3-D point under it; attention by
language weighs the votes. A wrong calibration shifts object and gripper alike, so their difference stays right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from vlatools.policy.tiny import text
from vlatools.policy.tiny.transform import ACTIONS, CELL, FEATURES, HORIZON

POINTS = 3  # object, place, gripper
OBJECT, PLACE, GRIPPER = range(POINTS)


@dataclass(frozen=True)
class Output:
    """What one forward pass gives.

    Attributes:
        actions: (B, H, 6) scaled deltas.
        progress: (B,) 0 to 1.
        points: (B, 3, 3) object, place and gripper, shifted and scaled metres.
        attention: (B, 3, cells) logarithm of the weight of each cell.
        turn: (B, 2) cosine and sine of twice the tool's yaw at the goal.
    """

    actions: Tensor
    progress: Tensor
    points: Tensor
    attention: Tensor
    turn: Tensor


def _conv(inner: int, outer: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inner, outer, size, stride, size // 2), nn.GroupNorm(8, outer), nn.ReLU(inplace=True))


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = _conv(width, width, 3)
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.GroupNorm(8, width))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.second(self.first(x)))


class Block(nn.Module):
    """One transformer layer, pre-norm, its projections plain ``nn.Linear`` so that adapters find them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, count, width = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, count, width))
        return x + self.down(functional.gelu(self.up(self.before_mlp(x))))


class TinyVla(nn.Module):
    """About one million parameters.

    Args:
        width: of the transformer.
        depth: its layers.
        channels: of the feature map.
    """

    def __init__(self, width: int = 128, depth: int = 3, channels: int = 48) -> None:
        super().__init__()
        self.words = nn.Embedding(text.SIZE, width, padding_idx=text.PAD)
        self.places = nn.Parameter(0.02 * torch.randn(text.MAX_TOKENS, width))
        self.reader = Block(width, 4)
        self.queries = nn.Parameter(torch.randn(POINTS, width) / math.sqrt(width))
        self.to_query = nn.Linear(width, channels)
        self.stem = nn.Sequential(_conv(7, 32, 5, 2), _conv(32, channels, 3, 2))
        self.film = nn.Linear(width, 2 * channels)
        self.body = nn.Sequential(_Residual(channels), _Residual(channels))
        self.keys = nn.Conv2d(channels, channels, 1)
        self.votes = nn.Conv2d(channels, POINTS * channels, 1)
        self.to_offset = nn.Linear(channels, 3)
        self.turn = nn.Sequential(nn.Linear(2 * channels + width, 128), nn.ReLU(), nn.Linear(128, 2))
        metric = 3 * 4 + 4 + 4  # differences of points and tool, the goal's turn, the position that was given
        self.metric = nn.Sequential(nn.Linear(metric + FEATURES, width), nn.GELU(), nn.Linear(width, width))
        self.state = nn.Linear(FEATURES, width)
        self.seen = nn.Linear(channels, width)
        self.steps = nn.Parameter(0.1 * torch.randn(HORIZON, width))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.act = nn.Linear(width, ACTIONS)
        self.progress = nn.Sequential(nn.Linear(width, 1024), nn.GELU(), nn.Linear(1024, 256), nn.GELU(), nn.Linear(256, 1))

    def forward(self, color: Tensor, points: Tensor, words: Tensor, state: Tensor, position: Tensor) -> Output:
        """One inference.

        Args:
            color: uint8 (B, 3, 120, 160) RGB.
            points: (B, 4, 120, 160), see ``transform.points``.
            words: (B, MAX_TOKENS) token numbers.
            state: (B, 14), see ``transform.features``.
            position: (B, 4) the position argument, shifted and scaled, and 1; zeros when none was given.
        """
        batch = color.shape[0]
        present = words != text.PAD
        said = self.reader(self.words(words) + self.places, present[:, None, None, :])
        weights = (said @ self.queries.T / math.sqrt(said.shape[-1])).masked_fill(~present[..., None], -1e4).softmax(1)
        asked = weights.transpose(1, 2) @ said  # (B, 3, width)
        query = self.to_query(asked)
        meaning = (said * present[..., None]).sum(1) / present.sum(1, keepdim=True).clamp(min=1)
        gain, shift = self.film(meaning)[..., None, None].chunk(2, 1)
        picture = torch.cat([color.float() / 127.5 - 1, points], 1)
        seen = self.body(functional.relu(self.stem(picture) * (1 + gain) + shift))
        cell = points[:, :, CELL // 2 :: CELL, CELL // 2 :: CELL].flatten(2)  # (B, 4, cells)
        score = torch.einsum("bkc,bcn->bkn", query, self.keys(seen).flatten(2)) / math.sqrt(query.shape[-1])
        attention = score.masked_fill(cell[:, 3:] < 0.5, -1e4).log_softmax(-1)
        votes = self.votes(seen).flatten(2).view(batch, POINTS, -1, cell.shape[-1])
        weight = attention.exp()
        attended = torch.einsum("bkn,bkcn->bkc", weight, votes)
        found = torch.einsum("bkn,bdn->bkd", weight, cell[:, :3]) + self.to_offset(functional.relu(attended) * (1 + query))
        turn = self.turn(torch.cat([attended[:, OBJECT], attended[:, PLACE], meaning], -1))
        tool = state[:, :3]
        yaw = torch.atan2(state[:, 3], state[:, 4])
        facing = torch.stack([torch.cos(2 * yaw), torch.sin(2 * yaw)], -1)
        aligned = torch.stack(
            [(turn * facing).sum(-1), turn[:, 1] * facing[:, 0] - turn[:, 0] * facing[:, 1]], -1
        )  # cosine and sine of twice the turn that is left
        given = torch.cat([position[:, :3] - tool, position[:, 3:]], -1) * position[:, 3:]
        metric = torch.cat(
            [
                found[:, OBJECT] - found[:, GRIPPER],
                found[:, PLACE] - found[:, GRIPPER],
                found[:, OBJECT] - tool,
                found[:, PLACE] - tool,
                turn,
                aligned,
                given,
                state,
            ],
            -1,
        )
        measured = self.metric(metric)
        tokens = torch.cat(
            [
                said,
                self.seen(attended) + asked,
                self.state(state)[:, None],
                measured[:, None],
                self.steps + measured[:, None] + meaning[:, None],
            ],
            1,
        )
        mask = torch.cat([present, present.new_ones(batch, tokens.shape[1] - present.shape[1])], 1)[:, None, None, :]
        for block in self.blocks:
            tokens = block(tokens, mask)
        final = self.norm(tokens)
        pooled = (final * mask[:, 0, 0, :, None]).sum(1) / mask[:, 0, 0].sum(1, keepdim=True)
        return Output(
            self.act(final[:, -HORIZON:]), torch.sigmoid(self.progress(pooled))[:, 0], found, attention, turn
        )
