"""Tests of one's own agents: a runtime with a fake clock that can be crashed at exact points."""

from standfast.testing.clock import FakeClock
from standfast.testing.lab import Lab, lab
from standfast.testing.tools import ToolContext, tool_context

__all__ = ["FakeClock", "Lab", "ToolContext", "lab", "tool_context"]
