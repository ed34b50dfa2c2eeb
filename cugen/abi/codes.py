"""The CG5xxx codes: errors of calls. A code is never reused."""

from __future__ import annotations

FILE_UNREADABLE = "CG5001"
WRONG_SHAPE = "CG5002"
WRONG_DTYPE = "CG5003"
UNKNOWN_ARGUMENT = "CG5004"
MISSING_ARGUMENT = "CG5005"
WRONG_STRIDES = "CG5006"
MISALIGNED = "CG5007"
WRONG_DEVICE = "CG5008"
PARAM_REFUSED = "CG5009"
OVER_A_LIMIT = "CG5010"
NO_GPU = "CG5011"
RESULT_DIFFERS = "CG5012"
DEVICE_FAULT = "CG5013"
OVERLAP = "CG5014"
GATHER_OUTSIDE = "CG5015"
NOT_FINITE = "CG5016"
OTHER_ARCHITECTURE = "CG5017"

CODES: dict[str, str] = {
    FILE_UNREADABLE: "an input file can't be read",
    WRONG_SHAPE: "an argument has the wrong shape",
    WRONG_DTYPE: "an argument has the wrong element type",
    UNKNOWN_ARGUMENT: "a name is no argument of the kernel",
    MISSING_ARGUMENT: "an argument of the kernel is missing",
    WRONG_STRIDES: "an array's strides differ from the layout that the kernel was made for",
    MISALIGNED: "an array isn't aligned as the kernel needs it",
    WRONG_DEVICE: "an array lies where the kernel can't reach it",
    PARAM_REFUSED: "a param's value is outside what the kernel was made for",
    OVER_A_LIMIT: "a launch asks for more than the device has",
    NO_GPU: "no GPU can be used",
    RESULT_DIFFERS: "the result differs from the reference",
    DEVICE_FAULT: "the kernel did something that the device caught",
    OVERLAP: "two arrays of a call share memory",
    GATHER_OUTSIDE: "an element used as a subscript lies outside the array that it indexes",
    NOT_FINITE: "a result has NaN or infinities, and so has the reference",
    OTHER_ARCHITECTURE: "the kernel is for GPUs of another architecture",
}
