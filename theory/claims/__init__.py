"""The paper's statements, one module each: the claim, then its checks, strongest first."""

SECTIONS = {
    "1": "Introduction",
    "2": "Geometric framework",
    "3": "Exact softmax sensitivity",
    "4": "Layerwise stability",
    "5": "Empirical analysis: what needs no training",
    "A": "Proofs for Section 2",
    "B": "Proof of Theorem 3.2 and remarks",
    "C": "Proofs for Section 4",
    "D": "Experimental details: what needs no training",
    "E": "Related work: what can be checked of it",
    "beyond": "Beyond the paper",
}
