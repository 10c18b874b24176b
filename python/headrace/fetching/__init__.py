"""Our own fetch of a web page: guarded, bounded, turned into text. No provider is asked, no credential is used.

Never here: a cookie, a credential, a script of the page's.
"""

from headrace.fetching._fetcher import Fetcher, FetchSettings
from headrace.fetching._guard import Guard, NotAllowedError

__all__ = ["FetchSettings", "Fetcher", "Guard", "NotAllowedError"]
