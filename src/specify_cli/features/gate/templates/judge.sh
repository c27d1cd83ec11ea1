mkdir -p "$REPORT"
spec-kitty trail fetch || echo "no records were fetched" >&2
code=0
spec-kitty gate --base "$BASE" --format markdown --output "$REPORT/comment.md" || code=$?
if [ ! -s "$REPORT/comment.md" ]; then
  printf '%s\n' '<!-- spec-kitty gate -->' "spec-kitty gate could not judge (exit code $code): see its log." > "$REPORT/comment.md"
fi
cat "$REPORT/comment.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
exit "$code"
