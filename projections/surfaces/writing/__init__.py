"""Requests that write: screened, decided under the lock, appended, rendered."""
