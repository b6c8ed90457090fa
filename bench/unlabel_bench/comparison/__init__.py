"""Methods side by side, and what models reach."""
