"""A thousand members of one book, simulated from what a try takes: how often the slowest engine makes them try again.

Each member syncs once a minute; one in twenty has something to publish. A try reads the end, lands, and puts; it is
lost if another member's put was stored after it had read. A member gives up at the limit of a sync. The waits are
those of `sync`.
"""

from __future__ import annotations

import heapq
from random import Random
import sys

from tallybook.projections.surfaces.sharing.syncing import longest_pause, longest_wait

MEMBERS = 1_000
WRITING = 0.05
MINUTES = 60
LIMIT_S = 60.0
TRIES = {
    "git, 2 trips of 400 ms": ("git", 0.8),
    "PostgreSQL, 2 trips of 30 ms": ("postgres", 0.06),
    "object store, 2 trips of 60 ms": ("objects", 0.12),
}
"""Distance of an engine → its name, and seconds from the answer to the read to that to the put."""


def simulate(engine: str, try_s: float, draw: Random) -> tuple[float, float]:
    """Return tries for each sync that publishes, and the share of them that gave up."""
    wait_s = longest_wait(engine, int(MEMBERS * WRITING))
    begins = [draw.uniform(0, 60 * MINUTES) + draw.uniform(0, wait_s) for _ in range(int(MEMBERS * WRITING * MINUTES))]
    # Each entry: when the put arrives, when its try read, when the sync began, and how many tries it had.
    puts = [(begin + try_s, begin, begin, 1) for begin in begins]
    heapq.heapify(puts)
    last, tries, lost = -1.0, 0, 0
    while puts:
        now, read, begin, count = heapq.heappop(puts)
        if read >= last:
            last = now
            tries += count
        elif now - begin > LIMIT_S:
            lost += 1
            tries += count
        else:
            again = now + draw.random() * longest_pause(try_s, count)
            heapq.heappush(puts, (again + try_s, again, begin, count + 1))
    return tries / len(begins), lost / len(begins)


def report(seed: int) -> int:
    """Print a line for each engine; 1 where members of another one than git gave up."""
    failed = False
    for name, (engine, try_s) in TRIES.items():
        tries, lost = simulate(engine, try_s, Random(seed))  # noqa: S311 - the same seed is to draw the same moments
        sys.stdout.write(f"{name}: {MEMBERS:,} members, {tries:.2f} tries a sync, {lost:.2%} gave up\n")
        failed = failed or (lost > 0 and not name.startswith("git"))
    return int(failed)
