"""Nothing of this folder is collected where another generation of AgentScope than 1.x, or none, is installed."""

from __future__ import annotations

import importlib.metadata


def _generation() -> str:
    try:
        return importlib.metadata.version("agentscope").partition(".")[0]
    except importlib.metadata.PackageNotFoundError:
        return ""


collect_ignore_glob = [] if _generation() == "1" else ["*test_*.py"]
