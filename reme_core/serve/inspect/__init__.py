"""The inspector: pages under `/inspect` for the person who asks why it thinks that, and wants to mend it.

HTML made here, forms and links: no script, nothing from elsewhere. Loaded at the first request of one of its pages.
"""
