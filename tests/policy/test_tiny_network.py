"""The tiny network: shapes, masking, and that it can learn where a point is. Needs PyTorch (not in the lock)."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")

from vlatools.policy.tiny import text  # noqa: E402
from vlatools.policy.tiny.network import TinyVla  # noqa: E402
from vlatools.policy.tiny.transform import ACTIONS, FEATURES, HORIZON  # noqa: E402


def inputs(count: int, seed: int = 0):  # type: ignore[no-untyped-def]
    make = torch.Generator().manual_seed(seed)
    color = torch.randint(0, 255, (count, 3, 120, 160), generator=make, dtype=torch.uint8)
    points = torch.cat([torch.randn(count, 3, 120, 160, generator=make), torch.ones(count, 1, 120, 160)], 1)
    words = torch.from_numpy(np.stack([text.tokens("reach the red cube")] * count))
    return color, points, words, torch.randn(count, FEATURES, generator=make), torch.zeros(count, 4)


def test_shapes_and_ranges() -> None:
    output = TinyVla()(*inputs(3))
    assert output.actions.shape == (3, HORIZON, ACTIONS) and output.points.shape == (3, 3, 3)
    assert ((output.progress > 0) & (output.progress < 1)).all()
    assert torch.allclose(output.attention.exp().sum(-1), torch.ones(3, 3), atol=1e-5)


def test_an_unknown_depth_gets_no_attention() -> None:
    color, points, words, state, position = inputs(1)
    points[:, :, :, :80] = 0.0
    weight = TinyVla()(color, points, words, state, position).attention.exp().view(1, 3, 30, 40)
    assert weight[..., :20].sum() < 1e-6


def test_each_sample_is_on_its_own() -> None:
    torch.manual_seed(0)
    model, pair = TinyVla().eval(), inputs(2)
    with torch.no_grad():
        both, one = model(*pair), model(*(part[:1] for part in pair))
    assert torch.allclose(both.actions[:1], one.actions, atol=1e-5)
