"""The analytic policy: tool families by geometry on RGB-D."""

from vlatools.policy.analytic.config import AnalyticConfig
from vlatools.policy.analytic.policy import AnalyticPolicy

__all__ = ["AnalyticConfig", "AnalyticPolicy"]
