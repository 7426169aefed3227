"""Texts shipped as package data: templates for models, files of plugins, the tables of PostgreSQL, sample settings."""
