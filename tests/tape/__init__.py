"""The tape: fixed ledgers, and what every verb answers on each of them, as files that a change must explain."""
