-- The indexes of every engine, which a step of a schema includes.
CREATE INDEX conflict_last ON conflict (last_at, invocation_id);
CREATE INDEX conflict_project ON conflict (project_uuid, last_at);
CREATE INDEX by_project ON invocation (project_uuid, ordinal);
CREATE INDEX by_profile ON invocation (profile_id, ordinal, project_uuid);
CREATE INDEX by_action ON invocation (action, ordinal, project_uuid);
CREATE INDEX by_state ON invocation (state, ordinal, project_uuid);
CREATE INDEX by_actor ON invocation (actor_id, ordinal, project_uuid);
CREATE INDEX by_project_profile ON invocation (project_uuid, profile_id, ordinal);
CREATE INDEX by_project_action ON invocation (project_uuid, action, ordinal);
CREATE INDEX by_project_state ON invocation (project_uuid, state, ordinal);
CREATE INDEX by_project_actor ON invocation (project_uuid, actor_id, ordinal);
CREATE INDEX by_profile_action ON invocation (profile_id, action, ordinal, project_uuid);
CREATE INDEX by_profile_state ON invocation (profile_id, state, ordinal, project_uuid);
CREATE INDEX by_profile_actor ON invocation (profile_id, actor_id, ordinal, project_uuid);
CREATE INDEX by_action_state ON invocation (action, state, ordinal, project_uuid);
CREATE INDEX by_action_actor ON invocation (action, actor_id, ordinal, project_uuid);
CREATE INDEX by_state_actor ON invocation (state, actor_id, ordinal, project_uuid);
