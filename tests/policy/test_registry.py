"""Policies by name; a manifest that does not fit refuses to start."""

from dataclasses import replace

import pytest

from tests.policy.kinematic_world import Table, cube
from vlatools.core import ConfigError, Family
from vlatools.policy.registry import PolicyParts, check_manifest, make_policy, policy_names


def _parts() -> PolicyParts:
    return PolicyParts(Table({"red cube": cube(0.4, 0.0)}))


def test_the_analytic_policy_fits_the_stack() -> None:
    policy = make_policy("analytic", _parts(), ("front",))
    assert Family.FLIP not in policy.manifest.families
    assert policy.manifest.reports_progress


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match="analytic"):
        make_policy("magic", _parts(), ("front",))
    assert "analytic" in policy_names()


def test_a_missing_camera_refuses_to_start() -> None:
    with pytest.raises(ConfigError, match="front"):
        make_policy("analytic", _parts(), ())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"action_space": "joint_delta"}, "action space"),
        ({"families": ()}, "families"),
        ({"families": (Family.REACH, Family.REACH)}, "families"),
        ({"dt": 0.0}, "dt"),
        ({"horizon": 0}, "horizon"),
        ({"rate_hz": 100.0}, "rate"),
        ({"rate_hz": 0.2}, "lasts"),
        ({"unnormalized_by": "nobody"}, "unnormalized_by"),
    ],
)
def test_a_manifest_that_does_not_fit_names_the_entry(change: dict, word: str) -> None:
    manifest = make_policy("analytic", _parts(), ("front",)).manifest
    with pytest.raises(ConfigError, match=word):
        check_manifest(replace(manifest, **change), ("front",))
