"""Measurements as other programs write them, translated into events."""
