"""The later playbook format, written anew from its description: sections, names by slug, results with operations."""

from __future__ import annotations

from typing import Any

SLUGS = {
    "PATTERNS & APPROACHES": "pat",
    "MISTAKES TO AVOID": "mis",
    "USER PREFERENCES": "pref",
    "PROJECT CONTEXT": "ctx",
    "OTHERS": "oth",
}


class LaterPlaybook:
    """A playbook of the later format: its sections, as its file has them.

    It differs from the description in what Tallybook decides otherwise: a name is never given again; a text that
    stands is not added by a merge either, as it is not by ADD; an id counts once among the sources; UPDATE counts, and
    makes a new entry; ADD takes effect after the other operations of its result; the names of merged entries lead to
    the new one, so that later ratings of them count for it.
    """

    def __init__(self) -> None:
        """Start without entries."""
        self.sections: dict[str, list[dict[str, Any]]] = {heading: [] for heading in SLUGS}
        self.merged: dict[str, str] = {}
        self.given: dict[str, int] = dict.fromkeys(SLUGS.values(), 0)

    def take(self, result: dict[str, Any]) -> None:
        """Take a result in: its operations or its new entries, then its ratings, then prune."""
        points = result.get("new_key_points", [])
        if "operations" in result:
            counted = result["operations"][:10]
            points = [operation for operation in counted if operation.get("type") == "ADD"]
            for operation in counted:
                self._operate(operation)
        for point in points:
            fields = {"text": point} if isinstance(point, str) else point
            self._add(fields.get("text"), self._heading(fields.get("section")))
        for evaluation in result.get("evaluations", []):
            self._rate(evaluation["name"], evaluation["rating"])
        for tag in result.get("bullet_tags", []):
            self._rate(tag["name"], tag["tag"])
        for entries in self.sections.values():
            entries[:] = [
                entry for entry in entries if not (entry["harmful"] >= 3 and entry["harmful"] > entry["helpful"])
            ]

    def _heading(self, given: Any) -> str:
        by_lower = {heading.lower(): heading for heading in SLUGS}
        return by_lower.get(given.lower(), "OTHERS") if isinstance(given, str) else "OTHERS"

    def _find(self, name: Any) -> tuple[str, dict[str, Any]] | None:
        for heading, entries in self.sections.items():
            for entry in entries:
                if entry["name"] == name:
                    return heading, entry
        return None

    def _add(self, text: Any, heading: str, helpful: int = 0, harmful: int = 0) -> None:
        texts = {entry["text"] for entries in self.sections.values() for entry in entries}
        if isinstance(text, str) and text.strip() and text not in texts:
            slug = SLUGS[heading]
            self.given[slug] += 1
            name = f"{slug}-{self.given[slug]:03d}"
            self.sections[heading].append({"name": name, "text": text, "helpful": helpful, "harmful": harmful})

    def _rate(self, name: str, rating: str) -> None:
        while name in self.merged:
            name = self.merged[name]
        found = self._find(name)
        if found is not None and rating in {"helpful", "harmful"}:
            found[1][rating] += 1

    def _remove(self, name: str) -> None:
        for entries in self.sections.values():
            entries[:] = [entry for entry in entries if entry["name"] != name]

    def _operate(self, operation: dict[str, Any]) -> None:
        target = self._find(operation.get("target_id"))
        if operation.get("type") == "DELETE" and target is not None:
            self._remove(target[1]["name"])
        elif operation.get("type") == "UPDATE" and target is not None:
            if not self._stands(operation["text"]):
                self._remove(target[1]["name"])
                self._add(operation["text"], target[0])
        elif operation.get("type") == "MERGE":
            ids = dict.fromkeys(operation["source_ids"])
            found = [entry for entry in map(self._find, ids) if entry is not None]
            sources = [entry["name"] for _, entry in found]
            if len(found) > 1 and not self._stands(operation["merged_text"], sources):
                heading = self._heading(operation["section"]) if "section" in operation else found[0][0]
                for name in sources:
                    self._remove(name)
                counts = [sum(entry[key] for _, entry in found) for key in ("helpful", "harmful")]
                self._add(operation["merged_text"], heading, *counts)
                self.merged |= dict.fromkeys(sources, self.sections[heading][-1]["name"])

    def _stands(self, text: str, but: list[str] | None = None) -> bool:
        entries = [entry for entries in self.sections.values() for entry in entries]
        return any(entry["text"] == text and entry["name"] not in (but or []) for entry in entries)
