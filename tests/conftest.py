"""Shared settings of the suite."""

from __future__ import annotations

import pytest

# The contract suites lie in the package, so pytest has to be told to explain their failed asserts.
pytest.register_assert_rewrite("reme_core.testing")
