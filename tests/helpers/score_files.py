"""The score files that the specification shows."""

from __future__ import annotations

SESSION_FILE = """{
  "session_id": "session_2026-01-16_001",
  "timestamp": "2026-01-16T22:00:00.000Z",
  "version": "2.0.0",
  "component_scores": {
    "ac01": 92,
    "ac02": 88,
    "ac03": 85,
    "ac04": 95,
    "ac05": 78,
    "ac06": 82,
    "ac07": 75,
    "ac08": 90,
    "ac09": 94
  },
  "session_scores": {
    "efficiency": 93,
    "effectiveness": 86,
    "improvement": 81,
    "handoff": 94,
    "overall": 87
  },
  "grade": "B"
}
"""
