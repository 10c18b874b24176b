"""Headrace: a model's stream, carried to whoever decides."""
