"""Python runs this before anything else, where its folder is on the path: see `conftest`."""

from __future__ import annotations

import sys

for name in ("nvflare", "private_set_intersection", "psutil"):
    sys.modules[name] = None  # type: ignore[assignment]  # which is how Python says "not here"
