"""Loaders of published data sets, one module each, and the table of them."""

from reme_bench.datasets import beam, halumem, locomo, longmemeval, own, realtalk
from reme_bench.datasets.source import Loaded, Source, WrongFileError, load

__all__ = ["SOURCES", "Loaded", "Source", "WrongFileError", "load"]

SOURCES = {
    source.name: source
    for source in (
        locomo.SOURCE,
        beam.SOURCE_100K,
        beam.SOURCE_500K,
        longmemeval.SOURCE,
        halumem.SOURCE,
        realtalk.SOURCE,
        own.SOURCE,
    )
}
