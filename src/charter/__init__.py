"""The charter: what a project demands, and the governance context drawn from it."""
