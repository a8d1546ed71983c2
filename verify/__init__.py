"""How a claim is judged: evidence, the registry of claims, the runner, exact arithmetic, reports.

This package knows nothing of attention. It imports nothing from ``theory`` or ``model``.
"""
