"""Find records by what stands in them: full text, files, tools, commits, rules; and the invocation behind a line."""
