"""The planner's diagnostics: each code and its title, as on its page under `cugen/explain`."""

from __future__ import annotations

CODES: dict[str, str] = {
    "CG2101": "An unknown family",
    "CG2102": "A family that does not fit",
    "CG2103": "No family fits",
    "CG2104": "An unknown tunable",
    "CG2105": "A schedule of the lock file that no longer fits",
    "CG2106": "A lock file that can't be used",
    "CG2107": "An entry of the lock file for another state of the spec",
    "CG2108": "A plan that costs more than it needs to",
    "CG2109": "An entry of the lock file for another target",
    "CG2110": "A cache operator without an access",
    "CG2111": "An option that the kernel or the target can't have",
    "CG2112": "A product that takes long for the type of a temporary",
    "CG2113": "An entry of the lock file for another device",
    "CG3101": "More threads than a block may have",
    "CG3102": "More shared memory than a block may have",
    "CG3103": "More blocks than a grid may have",
    "CG3104": "A type or memory space that the target lacks",
    "CG3105": "A texture with too many elements",
    "CG3106": "A 2-D texture whose pitch isn't aligned",
}
