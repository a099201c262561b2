"""Floor 2: one bounded invocation of a tool family, from the first observation to its outcome."""

from vlatools.tools.config import CheckConfig, ExecutorConfig, ToolsConfig
from vlatools.tools.executor import ToolExecutor
from vlatools.tools.inference import Inference, InlineInference, ThreadInference

__all__ = [
    "CheckConfig",
    "ExecutorConfig",
    "Inference",
    "InlineInference",
    "ThreadInference",
    "ToolExecutor",
    "ToolsConfig",
]
