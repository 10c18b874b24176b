"""The only importer of the native module: what the rest of the package may take from it.

No policy, and no value that is not native.
"""

from __future__ import annotations

from headrace._core import toml_document

__all__ = ["toml_document"]
