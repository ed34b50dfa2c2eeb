"""State of a GPU from `nvidia-smi`. Runs on GPU workers."""

from __future__ import annotations

import subprocess

from cugen.tune.devices import DeviceState

_FIELDS = "driver_version,clocks.sm,clocks.mem,clocks_throttle_reasons.active"
_TIMEOUT_S = 10.0
# nvmlClocksThrottleReason*: those that say that a GPU gets too hot or too little power. The power cap is not among
# them: GEMMs reach it on sound GPUs, and a GPU that it slows more than others is left out by its times.
_THROTTLED = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


def gpu_state(uuid: str, own_processes: int) -> DeviceState:
    """The state of a GPU, unknown without nvidia-smi. `own_processes`: timing processes of this worker."""
    state = _queried(uuid, f"--query-gpu={_FIELDS}")
    processes = _queried(uuid, "--query-compute-apps=pid")
    return parsed(state, processes, own_processes)


def parsed(state: str, processes: str, own_processes: int) -> DeviceState:
    """A state from the lines of nvidia-smi."""
    fields = [field.strip() for field in state.split(",")]
    if len(fields) != len(_FIELDS.split(",")):
        return DeviceState()
    driver, sm, memory, reasons = fields
    bits = int(reasons, 16) if reasons.startswith("0x") else 0
    throttled = ", ".join(text for bit, text in _THROTTLED.items() if bits & bit)
    others = max(0, len(processes.split()) - own_processes)
    return DeviceState(driver, _number(sm), _number(memory), throttled, others)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0  # [N/A]


def _queried(uuid: str, query: str) -> str:
    command = ["nvidia-smi", f"--id={uuid}", query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
