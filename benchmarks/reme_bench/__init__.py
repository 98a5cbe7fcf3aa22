"""Benchmarks of agent memories on published conversations: loaders, measures, a runner and its file of results.

`reme bench` and `python -m reme_bench` run it. Nothing of it is loaded for other commands of `reme`.
"""
