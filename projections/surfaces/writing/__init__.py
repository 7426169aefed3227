"""Writes of verbs and library: mask secrets, decide under the lock, encode, append, fold, render."""
