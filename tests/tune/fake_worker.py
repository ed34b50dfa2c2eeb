"""A worker without a GPU: speaks the protocol of `cugen.tune.timing.worker`, and makes up times from what it is given.

Its one argument is a file of JSON: `times`, a list of [text, microseconds] of which the first whose text stands in the
source counts; `hang`, `die`, `wrong`, `garble` and `same`, lists of texts of sources that make it do so; `refuses`,
UUIDs of GPUs on which it can't be opened; `log`, a file that gets a line for each candidate; `factors`, of the times of
GPUs, by UUID; `seconds` that each request takes; `ready_seconds` that the first messages take; `awaits`, a file without
which no request is answered.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    untuned = ""

    def has(code: dict[str, Any], what: str) -> bool:
        return any(text in code["source"] for text in plan.get(what, ()))

    for line in sys.stdin:
        message = json.loads(line)
        if "open" in message:
            if gpu in plan.get("refuses", ()):
                print("no memory left on this GPU", file=sys.stderr)
                sys.exit(1)
            untuned = message["untuned"]["source"]
            print(json.dumps({"opened": True}), flush=True)
            continue
        if "ready" in message:
            time.sleep(plan.get("ready_seconds", 0))
            print(json.dumps({"ready": True}), flush=True)
            continue
        time.sleep(plan.get("seconds", 0))
        while "awaits" in plan and not Path(plan["awaits"]).exists():
            time.sleep(0.02)
        factor = plan.get("factors", {}).get(gpu, 1.0)
        answer: dict[str, Any] = {"times": {}, "same_bits": {}, "failed": {}, "stopped": []}
        for code in message["time"]:
            number = str(code["number"])
            if "log" in plan:
                with open(plan["log"], "a") as log:
                    log.write(f"{gpu} {number}\n")
            if has(code, "hang"):
                time.sleep(60)
            if has(code, "die"):
                print("an illegal memory access", file=sys.stderr, flush=True)
                os._exit(7)
            if has(code, "garble"):
                print("what a library prints", flush=True)
            if has(code, "wrong"):
                answer["failed"][number] = "wrong results: y: 3 of 9 elements differ"
            took = factor * next((us for text, us in plan["times"] if text in code["source"]), 100.0)
            answer["times"][number] = [took, took / 2]
            answer["same_bits"][number] = code["source"] == untuned or has(code, "same")
        if answer["failed"]:
            answer |= {"times": {}, "same_bits": {}}
        elif len(message["time"]) > 1:
            first, last = (str(message["time"][position]["number"]) for position in (0, -1))
            if answer["times"][first][0] > message["hopeless"] * answer["times"][last][0]:
                answer["stopped"] = [int(first)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
