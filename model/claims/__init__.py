"""The paper's statements that need a model or a run: the claim, then its checks.

What needs neither stands in theory/claims.
"""

SECTIONS = {
    "5": "Empirical analysis",
    "D": "Experimental details and additional results",
}
