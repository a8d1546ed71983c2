"""The mathematics of "Exact Attention Sensitivity and the Geometry of Transformer Stability" as
functions to call: norms, the tempered softmax and LayerNorm with their Jacobians, the exact
balanced-mass factor θ of an attention row (theory.theta), and the paper's statements with the
checks that judge them (theory.claims). Nothing is loaded or run by importing this package."""
