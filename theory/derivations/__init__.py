"""SymPy objects derived from definitions, shared by the claims: nothing here is typed in."""
