"""Shared settings of the suite."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The contract suites lie in the package, so pytest has to be told to explain their failed asserts.
pytest.register_assert_rewrite("reme_core.testing")

# A slow machine is no failure: a test that hangs is ended by pytest's own limit.
settings.register_profile("reme", deadline=None)
settings.load_profile("reme")
