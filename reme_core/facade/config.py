"""Settings, and what is built from them. The one place that reads the environment, and only when asked."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from reme_core import models
from reme_core.errors import ConfigurationError
from reme_core.facade.parts import DATABASE_VARIABLE, FILE_NAME, Settings, Unset
from reme_core.ports import ChatModel, Embedder, Store
from reme_core.schema import describe, shown
from reme_core.schema.checks import is_path, kind_of, not_among

if TYPE_CHECKING:
    from reme_core.steps.slicing import Slicing
    from reme_core.stores import LocalStore

_LOG = logging.getLogger("reme")

CACHE_NAME = "embeddings.db"
_OPENAI_URL = "https://api.openai.com/v1"

P = TypeVar("P", bound=BaseModel)


class _SettingsModel(BaseModel):
    # Inputs may be keys. Built with their first use: most are never used.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class OpenAIChatSettings(_SettingsModel):
    """A chat model behind an OpenAI-compatible endpoint; key and address come from the environment if left out."""

    backend: Literal["openai"]
    model: str
    temperature: float | None = None
    api_key: SecretStr | None = None
    base_url: str | None = None
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    max_retries: Annotated[int, Field(ge=0)] = 3
    max_concurrency: Annotated[int, Field(ge=1)] = 8


class OpenAIEmbeddingSettings(_SettingsModel):
    """An embedding model behind an OpenAI-compatible endpoint. `cache` keeps vectors on disk, by digest of the text.

    `name` is what the vectors go by, where `model` isn't: one model may have another name at each endpoint.
    """

    backend: Literal["openai"]
    model: str
    name: str | None = None
    dimension: Annotated[int, Field(ge=1)] = 1024
    api_key: SecretStr | None = None
    base_url: str | None = None
    batch_size: Annotated[int, Field(ge=1)] = 10
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    max_retries: Annotated[int, Field(ge=0)] = 3
    max_concurrency: Annotated[int, Field(ge=1)] = 8
    cache: bool = False


class LocalSettings(_SettingsModel):
    """One SQLite file, by default `memory.db` in the working folder; see `LocalStore`."""

    backend: Literal["local", "local_file"] = "local_file"
    path: Path | None = None
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    max_bytes: Annotated[int, Field(gt=0)] | None = None
    cache_bytes: Annotated[int, Field(gt=0)] = 1 << 30
    loading_wait_s: Annotated[float, Field(ge=0)] = 0.5


class QdrantSettings(_SettingsModel):
    """Memories searched in Qdrant; all is kept in the local file. Exactly one of `location`, `path` and `url`.

    What lies below `dimension` is about a server, and described in docs/qdrant.md.
    """

    backend: Literal["qdrant"]
    location: Literal[":memory:"] | None = None
    path: Path | None = None
    url: str | None = None
    api_key: SecretStr | None = None
    prefer_grpc: bool = False
    collection: str = "reme"
    dimension: Annotated[int, Field(ge=1)] | None = None
    grpc_port: Annotated[int, Field(ge=1, le=65535)] = 6334
    timeout_s: Annotated[int, Field(ge=1)] = 30
    shard_number: Annotated[int, Field(ge=1)] | None = None
    replication_factor: Annotated[int, Field(ge=1)] | None = None
    write_consistency_factor: Annotated[int, Field(ge=1)] | None = None
    read_consistency: Literal["majority", "quorum", "all"] | Annotated[int, Field(ge=1)] = "majority"
    shard_by_space: bool = False
    quantization: Literal["scalar", "binary", "product"] | None = None
    oversampling: Annotated[float, Field(ge=1)] = 3.0
    on_disk: bool | None = None


class PostgresSettings(_SettingsModel):
    """All of it in PostgreSQL; see `PostgresStore`. Without `url`, the environment names it (REME_DATABASE_URL)."""

    backend: Literal["postgres"]
    url: SecretStr | None = None
    schema_name: Annotated[str, Field(alias="schema")] = "reme"
    max_connections: Annotated[int, Field(ge=1)] = 10
    idle_s: Annotated[float, Field(gt=0)] = 30.0
    connect_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    statement_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    lock_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    retry_s: Annotated[float, Field(ge=0)] = 20.0
    prepare_threshold: Annotated[int, Field(ge=0)] | None = 5
    allow_superuser: bool = False
    cache_bytes: Annotated[int, Field(gt=0)] = 1 << 30
    loading_wait_s: Annotated[float, Field(ge=0)] = 0.5


@runtime_checkable
class Closable(Protocol):
    """Something with a lifetime."""

    async def close(self) -> None:
        """Release what is held."""
        ...


StoreSettings: TypeAlias = LocalSettings | QdrantSettings | PostgresSettings
"""The settings of a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What a memory stands on; `owned` is what was built here, to be closed with it.

    `file` is the local file of the store, for tables of adapters; None where it lies elsewhere. `base` is the store
    itself, whatever stands around it by now.
    """

    store: Store
    base: Store
    file: LocalStore | None
    llm: ChatModel | None
    embedder: Embedder | None
    owned: tuple[Closable, ...]


def build(
    *,
    working_dir: str | Path,
    llm: ChatModel | Settings | Unset | None,
    embedding: Embedder | Settings | Unset | None,
    vector_store: Store | Settings | None,
) -> Ports:
    """Build what settings name, and take objects as they are. Nothing is opened and no endpoint is asked.

    Raises:
        ConfigurationError: Settings that are unknown, missing or contradict each other.
        MissingExtraError: A store whose library is not installed.
    """
    from reme_core.stores import LocalStore

    folder = _folder(working_dir)
    for name, part in (("llm", llm), ("embedding", embedding), ("vector_store", vector_store)):
        check_object(part, name)
    embedder, chat = _embedder(embedding, folder), _chat(llm)
    owned: list[Closable] = []
    for given, built in ((embedding, embedder), (llm, chat)):
        if built is not None and built is not given and isinstance(built, Closable):
            owned.append(built)
    if vector_store is None or isinstance(vector_store, Mapping):
        settings = _read_store(_from_url() if vector_store is None else vector_store)
        file = None if isinstance(settings, PostgresSettings) else _file(settings, folder)
        store = _store(settings, file, embedder)
        owned.append(store)
    else:
        check_store(vector_store)
        store, file = vector_store, vector_store if isinstance(vector_store, LocalStore) else None
    return Ports(store=store, base=store, file=file, llm=chat, embedder=embedder, owned=tuple(owned))


def check_slicing(value: object) -> Slicing:
    """Return slicing rules, the default ones for None (ConfigurationError)."""
    from reme_core.steps.slicing import Slicing

    if value is None or isinstance(value, Slicing):
        return value or Slicing()
    msg = f"slicing: wanted a Slicing, found {kind_of(value)}"
    raise ConfigurationError(msg)


def check_object(value: object, what: str) -> None:
    """Refuse plain values where settings or an object with methods are wanted (ConfigurationError)."""
    if isinstance(value, (str, bytes, int, float, list, tuple, set, frozenset)):
        msg = f"{what}: wanted settings (a mapping with a 'backend') or an object, found {kind_of(value)}"
        raise ConfigurationError(msg)


def _folder(working_dir: object) -> Path:
    text = str(working_dir) if isinstance(working_dir, (str, Path)) else ""
    if text.strip() and is_path(text) and "://" not in text:
        return Path(text).expanduser()
    found = "a URL, which vector_store takes" if "://" in text else shown(working_dir)
    msg = f"working_dir: wanted the path of a folder, found {found}"
    raise ConfigurationError(msg)


def _read(settings: Settings, forms: Mapping[str, type[P]], what: str, backend: str | None = None) -> P:
    """Read settings in the form of their backend; `backend`: the one meant where none is named."""
    named = settings.get("backend", backend)
    if not isinstance(named, str) or named not in forms:
        raise ConfigurationError(not_among(f"{what}.backend", named, tuple(forms), with_value=False))
    form = forms[named]
    try:
        return form.model_validate({"backend": named, **settings})
    except ValidationError as exc:
        raise ConfigurationError(describe(exc, what, with_values=False, form=form)) from exc


def _read_store(settings: Settings) -> StoreSettings:
    forms: dict[str, type[StoreSettings]] = {
        "local_file": LocalSettings,
        "local": LocalSettings,
        "qdrant": QdrantSettings,
        "postgres": PostgresSettings,
    }
    return _read(settings, forms, "vector_store", "local_file")


def _from_url() -> Settings:
    """Return the settings of the database that the environment names, those of the local file where it names none."""
    return {"backend": "postgres"} if os.environ.get(DATABASE_VARIABLE) else {}


def _store(settings: StoreSettings, file: LocalStore | None, embedder: Embedder | None) -> Store:
    if isinstance(settings, PostgresSettings):
        return _postgres(settings)
    if file is None:  # as `build` has made it
        msg = "vector_store: there is no file"
        raise ConfigurationError(msg)
    return _indexed(file, settings, embedder) if isinstance(settings, QdrantSettings) else file


def _postgres(settings: PostgresSettings) -> Store:
    from reme_core import stores

    url = os.environ.get(DATABASE_VARIABLE) if settings.url is None else settings.url.get_secret_value()
    if not url:
        msg = f"vector_store.url: wanted postgresql://user:password@host/database: give it, or set {DATABASE_VARIABLE}"
        raise ConfigurationError(msg)
    return stores.PostgresStore(
        url,
        schema=settings.schema_name,
        max_connections=settings.max_connections,
        idle_s=settings.idle_s,
        connect_timeout_s=settings.connect_timeout_s,
        statement_timeout_s=settings.statement_timeout_s,
        lock_timeout_s=settings.lock_timeout_s,
        retry_s=settings.retry_s,
        prepare_threshold=settings.prepare_threshold,
        allow_superuser=settings.allow_superuser,
        cache_bytes=settings.cache_bytes,
        loading_wait_s=settings.loading_wait_s,
    )


def _file(settings: LocalSettings | QdrantSettings, folder: Path) -> LocalStore:
    from reme_core.stores import LocalStore

    if isinstance(settings, QdrantSettings):
        return LocalStore(folder / FILE_NAME)
    return LocalStore(
        settings.path or folder / FILE_NAME,
        synchronous=settings.synchronous,
        busy_timeout_s=settings.busy_timeout_s,
        max_bytes=settings.max_bytes,
        cache_bytes=settings.cache_bytes,
        loading_wait_s=settings.loading_wait_s,
    )


def _indexed(file: LocalStore, settings: QdrantSettings, embedder: Embedder | None) -> Store:
    from reme_core import stores

    dimension = settings.dimension or (None if embedder is None else embedder.dimension)
    if dimension is None:
        msg = "vector_store: qdrant fixes the dimension of its vectors: give dimension, or an embedding model"
        raise ConfigurationError(msg)
    index = stores.QdrantIndex(
        location=settings.location,
        path=settings.path,
        url=settings.url,
        api_key=None if settings.api_key is None else settings.api_key.get_secret_value(),
        prefer_grpc=settings.prefer_grpc,
        grpc_port=settings.grpc_port,
        timeout_s=settings.timeout_s,
        collection=settings.collection,
        dimension=dimension,
        layout=stores.QdrantLayout(
            shard_number=settings.shard_number,
            replication_factor=settings.replication_factor,
            write_consistency_factor=settings.write_consistency_factor,
            shard_by_space=settings.shard_by_space,
            quantization=settings.quantization,
            on_disk=settings.on_disk,
        ),
        read_consistency=settings.read_consistency,
        oversampling=settings.oversampling,
    )
    return stores.IndexedStore(file, index)


def check_store(store: object) -> None:
    """Refuse an object that lacks methods of the port, before anything is kept in it (ConfigurationError)."""
    if not isinstance(store, Store):
        msg = f"vector_store: wanted settings or a Store with all its methods, found {kind_of(store)}"
        raise ConfigurationError(msg)


def _chat(llm: ChatModel | Settings | Unset | None) -> ChatModel | None:
    if isinstance(llm, Unset):
        llm = _from_environment("LLM")
        if llm is None:
            return None
    if not isinstance(llm, Mapping):
        return llm
    settings = _read(llm, {"openai": OpenAIChatSettings}, "llm")
    key, address = _endpoint(settings.api_key, settings.base_url, "LLM")
    return models.OpenAIChat(
        model=settings.model,
        api_key=key,
        base_url=address,
        temperature=settings.temperature,
        timeout_s=settings.timeout_s,
        max_retries=settings.max_retries,
        max_concurrency=settings.max_concurrency,
    )


def _embedder(embedding: Embedder | Settings | Unset | None, folder: Path) -> Embedder | None:
    if isinstance(embedding, Unset):
        embedding = _from_environment("EMBEDDING")
        if embedding is None:
            return None
    if not isinstance(embedding, Mapping):
        return embedding
    settings = _read(embedding, {"openai": OpenAIEmbeddingSettings}, "embedding")
    key, address = _endpoint(settings.api_key, settings.base_url, "EMBEDDING")
    embedder = models.OpenAIEmbedder(
        model=settings.model,
        dimension=settings.dimension,
        name=settings.name,
        api_key=key,
        base_url=address,
        batch_size=settings.batch_size,
        timeout_s=settings.timeout_s,
        max_retries=settings.max_retries,
        max_concurrency=settings.max_concurrency,
    )
    return models.CachedEmbedder(embedder, folder / CACHE_NAME) if settings.cache else embedder


def _variable(part: Literal["LLM", "EMBEDDING"], name: str) -> str | None:
    return os.environ.get(f"REME_{part}_{name}") or os.environ.get(f"OPENAI_{name}") or None


def _endpoint(key: SecretStr | None, base_url: str | None, part: Literal["LLM", "EMBEDDING"]) -> tuple[str | None, str]:
    """Return key and address; a server of one's own may need no key, OpenAI's does (ConfigurationError)."""
    address = base_url or _variable(part, "BASE_URL")
    secret = _variable(part, "API_KEY") if key is None else key.get_secret_value()
    if not secret and address is None:
        msg = f"no API key for the {part.lower()} model: set REME_{part}_API_KEY or OPENAI_API_KEY, or give api_key"
        raise ConfigurationError(msg)
    return secret or None, address or _OPENAI_URL


def _from_environment(part: Literal["LLM", "EMBEDDING"]) -> Settings | None:
    """Return settings if the environment names a model and has a key, or an address; otherwise say so once."""
    model = os.environ.get(f"REME_{part}_MODEL")
    if model and (_variable(part, "API_KEY") or _variable(part, "BASE_URL")):
        settings: dict[str, object] = {"backend": "openai", "model": model}
        dimension = os.environ.get(f"REME_{part}_DIMENSION")
        if dimension and part == "EMBEDDING":
            settings["dimension"] = dimension
        return settings
    chat = part == "LLM"
    what = "messages are kept and found as they were said" if chat else "texts are found by their words"
    form = "no %s model: %s; for one, set REME_%s_MODEL and REME_%s_API_KEY (or OPENAI_API_KEY)"
    _LOG.info(form, "chat" if chat else "embedding", what, part, part)
    return None
