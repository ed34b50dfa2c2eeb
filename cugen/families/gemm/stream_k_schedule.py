"""Who computes what where blocks share out the last tiles of a product: whole tiles first, then ranges of steps."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST = 4  # steps of a range, of which fewer don't pay for the first copies


@dataclass(frozen=True, slots=True)
class Shares:
    """Each of `blocks` computes `rounds` whole tiles of `steps` each, in turn; the steps of all other tiles, in a row,
    are cut into ranges of `share` steps, one for each block."""

    tiles: int
    steps: int
    blocks: int
    rounds: int
    share: int

    @property
    def whole(self) -> int:
        """The tiles that no blocks share."""
        return self.rounds * self.blocks

    @property
    def shared_steps(self) -> int:
        return (self.tiles - self.whole) * self.steps

    @property
    def text(self) -> str:
        tiles = self.tiles - self.whole
        whole = {0: "", 1: "compute a whole tile each and "}.get(
            self.rounds, f"compute {self.rounds} whole tiles each and "
        )
        return f"{self.blocks} blocks {whole}share out the steps of {tiles} tile{'s' if tiles > 1 else ''}"

    @property
    def segments(self) -> tuple[int, int]:
        """Of how many tiles a range has steps, at least and at most."""
        counts = []
        for block in range(self.blocks):
            first = min(self.share * block, self.shared_steps)
            last = min(first + self.share, self.shared_steps)
            counts.append(-(-last // self.steps) - first // self.steps if first < last else 0)
        return min(counts), max(counts)

    @property
    def most(self) -> int:
        """Of how many tiles a range of its length may have steps."""
        return -(-(self.share - 1) // self.steps) + 1

    @property
    def earlier(self) -> int:
        """The most blocks that take the beginning of a tile whose end another one takes."""
        return -(-(self.steps - 1) // self.share)

    @property
    def joins(self) -> bool:
        """Whether any tile has more than one block."""
        return self.share % self.steps != 0


def share_out(tiles: int, steps: int, slots: int, waves: int, threads: int) -> Shares:
    """The last `waves` of the tiles, an unfinished one among them, are shared by blocks, of which `slots` run at once.

    No tile has more blocks than a block has threads, each of which asks for one of them."""
    rounds = max(-(-tiles // slots) - waves, 0)
    steps_left = (tiles - rounds * slots) * steps
    share = max(-(-steps_left // slots), min(_LEAST, steps_left), -(-(steps - 1) // threads))
    blocks = slots if rounds else -(-steps_left // share)
    return Shares(tiles, steps, blocks, rounds, share)
