mkdir -p "$REPORT"
(
  # A private repository's records are fetched with the job's own token, which may only read.
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="http.$SERVER/.extraheader"
  GIT_CONFIG_VALUE_0="AUTHORIZATION: basic $(printf 'x-access-token:%s' "$TOKEN" | base64 | tr -d '\n')"
  export GIT_CONFIG_VALUE_0
  spec-kitty trail fetch || echo "no records were fetched" >&2
)
code=0
spec-kitty gate --base "$BASE" --format markdown --output "$REPORT/comment.md" || code=$?
if [ ! -s "$REPORT/comment.md" ]; then
  printf '%s\n' '<!-- spec-kitty gate -->' "spec-kitty gate could not judge (exit code $code): see its log." > "$REPORT/comment.md"
fi
cat "$REPORT/comment.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
exit "$code"
