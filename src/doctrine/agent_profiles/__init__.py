"""Agent profiles: the identities that a request can be routed to, each with a role, specializations
and languages.

    from doctrine.agent_profiles.repository import AgentProfileRepository
    [profile.profile_id for profile in AgentProfileRepository(root).all()]

Reading order: `profile.py` (one profile, parsed from its document), `capabilities.py` (what each of
the eight roles can do), `repository.py` (all of them: a project's own profile takes the place of
the shipped one with its id).

A profile that cannot be read is an error with file, line and reason; it is never left out silently.
`profile.py` and `capabilities.py` do no I/O. Routing and `charter` import it.
"""
