"""A profile made of what a test is about."""

from __future__ import annotations

from doctrine.agent_profiles.profile import AgentProfile


def profile(profile_id: str, *roles: str, **fields: object) -> AgentProfile:
    return AgentProfile(
        profile_id=profile_id,
        name=profile_id.title(),
        description="",
        schema_version="1.0",
        roles=roles,
        capabilities=fields.pop("capabilities", ()),  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )
