"""Every write: mask secrets, decide under the lock, encode, append, fold, render."""
