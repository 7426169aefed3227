"""Payloads that no agent sends: recorded ones with fields missing, wrong, huge, nested or of another agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.agent_payloads import at, kinds, recorded_payloads, shape_of
from helpers.hook_calls import call_hook, here
from helpers.json_values import JSON
from helpers.sweep import slice_of
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.history.reading import open_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.projections.surfaces.workspace.project import Project

__all__ = ["here"]

ROWS = {agent: recorded_payloads(agent) for agent in table.AGENTS}
FIELDS = sorted({field for rows in ROWS.values() for row in rows for field in row["payload"]})
ODD: list[Any] = [
    "\ud800 [kpt_001]",
    "\udfff" * 40,
    "a\0b [kpt_002]",
    "\u202e[kpt_001]\u0000",
    "[kpt_001]" * 20_000,
    "x" * 200_000,
    "/",
    "../../../../etc/passwd",
    "SessionStart",
    "compact",
    10**400,
    -1.5e308,
    True,
    None,
    [],
    {},
    [[[[["[kpt_001]"]]]]],
    {"hook_event_name": "SessionStart"},
]
VALUES = st.sampled_from(ODD) | JSON


@attrs.frozen
class BadPayload:
    """A recorded payload that was changed; a report shows the beginning of it.

    Attributes:
        row: The recorded row.
        data: The bytes that it became.
    """

    row: dict[str, Any] = attrs.field(repr=False)
    data: bytes = attrs.field(repr=lambda data: repr(data[:2_000]))


@st.composite
def bad_payloads(draw: st.DrawFn, agent: str) -> BadPayload:
    """Draw a recorded payload of an agent, and change it."""
    row = draw(st.sampled_from(ROWS[agent]))
    document = dict(row["payload"])
    for _ in range(draw(st.integers(0, 3))):
        document.pop(draw(st.sampled_from(sorted(document) or [""])), None)
    document |= draw(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
    data = json.dumps(draw(st.just(document) | VALUES) if draw(st.integers(0, 9)) == 0 else document).encode()
    shape: Callable[[bytes], bytes] = draw(st.sampled_from(SHAPES))
    return BadPayload(row, shape(data))


SHAPES: tuple[Callable[[bytes], bytes], ...] = (
    *[bytes] * 6,
    lambda data: data[: len(data) // 2],
    lambda data: data + data,
    lambda data: b"[" * 3_000 + data,
    lambda data: data.replace(b'"', b"\xff", 1),
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data.replace(b"[kpt", b"\\ud800[kpt"),
    lambda data: b"\0" + data,
)
"""What becomes of the bytes; most often nothing."""


@pytest.mark.parametrize("agent", table.AGENTS)
def test_a_bad_payload_ends_with_0_and_loses_and_invents_nothing(here: Project, agent: str) -> None:
    """The ledger verifies, its entries are the same, and only an answer that was printed is recorded as injected."""

    @settings(
        max_examples=slice_of(1_000, 25), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
    @given(drawn=bad_payloads(agent))
    def try_one(drawn: BadPayload) -> None:
        environment = {name: at(value, here.root) for name, value in drawn.row["environment"].items()}
        before, entries = kinds(here), here.playbook.read_bytes()
        data = at(drawn.data.decode("utf-8", "surrogateescape"), here.root).encode("utf-8", "surrogateescape")
        done = call_hook(data, environment)
        after = kinds(here)
        assert 0 == done.returncode
        assert b"" == done.stderr or (done.stderr.startswith(b"tallybook: ") and b"Traceback" not in done.stderr)
        assert before == after[: len(before)]
        added = after[len(before) :]
        assert bool(shape_of(done.stdout)) == ("playbook.injected" in added)
        assert {"playbook.injected", "point.cited", "reflection.requested"} >= set(added)
        assert entries == here.playbook.read_bytes()
        assert verify(open_log(here)).ok

    try_one()
