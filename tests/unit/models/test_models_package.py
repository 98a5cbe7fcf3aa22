"""Names are there, libraries are loaded when they are needed."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from reme_core.errors import MissingExtraError


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("package", ["reme_core.models", "reme_core.testing"])
def test_every_public_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="Nonsense"):
        module.Nonsense  # noqa: B018  # the access is the test


@pytest.mark.parametrize("code", ["import reme_core.models", "from reme_core.models import CachedEmbedder"])
def test_importing_loads_no_client(code: str) -> None:
    assert run(f"{code}; import sys; print('openai' in sys.modules)") == "False"


def test_the_test_doubles_load_no_pytest() -> None:
    code = "from reme_core.testing import ScriptedChatModel, HashedEmbedder, FixedClock, SequentialIds"
    assert run(f"{code}; import sys; print('pytest' in sys.modules or 'openai' in sys.modules)") == "False"


def test_a_missing_library_is_named_and_other_import_errors_stay() -> None:
    code = (
        "import sys; sys.modules['{0}'] = None\n"
        "try:\n    from reme_core.models import OpenAIChat\n"
        "except ImportError as exc: print(type(exc).__name__)"
    )
    assert run(code.format("openai")) == "MissingExtraError"
    assert run(code.format("reme_core.models.endpoint")) == "ModuleNotFoundError"
    assert issubclass(MissingExtraError, ImportError)
