"""Teach agents when to ask and when to close: skills, a replay command and marked blocks as project
files.

    from specify_cli.features.skills.skills import look_at_skills
    look_at_skills(root)

Reading order: `skills.py` (install, look, uninstall), `texts/` (what is installed), `commands.py`.

A file that somebody changed is left alone without `--force`, and of AGENTS.md and CLAUDE.md only
the marked block is touched. It needs the room hooks; charter_setup needs it.
"""
