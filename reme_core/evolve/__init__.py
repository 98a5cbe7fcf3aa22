"""Evolving what is remembered: consolidation as a plan that is shown first and written as one run."""
