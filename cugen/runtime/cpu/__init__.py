"""The CPU device: the unchanged .cu, compiled by the host C++ compiler and run in a child process."""

from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.cpu.trace import Trace, TraceRecord

__all__ = ["CpuDevice", "Trace", "TraceRecord"]
