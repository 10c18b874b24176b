"""Helpers of the tests. Nothing in the package may import from here."""
