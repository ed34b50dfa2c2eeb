"""`cugen_launch.hpp`: spans and argument checks, shared by the typed launchers of an output folder."""

from __future__ import annotations

import re

from cugen.abi import codes, wording
from cugen.emit.environment import environment
from cugen.emit.files import LAUNCH_HEADER, stamped
from cugen.emit.host.sentences import terms
from cugen.emit.inputs import launch_input_hash
from cugen.emit.layout import tidy
from cugen.version import __version__

# C++ expressions in the template for the placeholders of cugen.abi.wording.
_EXPRESSIONS = {
    **{word: word for word in ("name", "other_name", "source", "other_source", "condition", "symbols")},
    **{word: f"std::to_string({word})" for word in ("value", "other_value", "low", "high", "multiple", "alignment")},
    "actual": "actual",
    "expected": "expected",
    "values": "text",
    "address": "hexadecimal(address)",
}


def launch_header(version: str = __version__) -> str:
    """Text of the file, stamped. It depends on cugen alone; `version` names its inline namespace."""
    template = environment().get_template(f"{LAUNCH_HEADER}.j2")
    text = template.render(
        version=version, namespace=f"v{re.sub(r'[^0-9A-Za-z]', '_', version)}", sentences=_sentences(), codes=_codes()
    )
    return stamped(tidy(text), launch_input_hash())


def _sentences() -> dict[str, str]:
    """Messages as C++ expressions over the arguments of the checks."""
    texts = {
        "shape": wording.SHAPE,
        "equation": wording.EQUATION,
        "strides": wording.STRIDES,
        "null": wording.NULL,
        "alignment": wording.ALIGNMENT,
        "out_of_range": wording.OUT_OF_RANGE,
        "no_multiple": wording.NO_MULTIPLE,
        "two_values": wording.TWO_VALUES,
        "requirement": wording.REQUIREMENT,
        "overlap": wording.OVERLAP,
    }
    return {name: " + ".join(terms(text, _EXPRESSIONS)) for name, text in texts.items()}


def _codes() -> dict[str, str]:
    """Error codes by their names in the template."""
    return {
        "shape": codes.WRONG_SHAPE,
        "strides": codes.WRONG_STRIDES,
        "null": codes.WRONG_DEVICE,
        "alignment": codes.MISALIGNED,
        "param": codes.PARAM_REFUSED,
        "overlap": codes.OVERLAP,
    }
