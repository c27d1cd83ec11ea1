"""Doctrine: the agent profiles, directives and tactics a charter draws on."""
