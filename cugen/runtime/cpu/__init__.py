"""The CPU device: the unchanged .cu, compiled by the host's C++ compiler and played in a child process."""

from cugen.run.cpu.device import CpuDevice
from cugen.run.cpu.trace import Trace, TraceRecord

__all__ = ["CpuDevice", "Trace", "TraceRecord"]
