@PROJECTS@
mkdir -p "$REPORT"
echo '<!-- spec-kitty gate -->' > "$REPORT/comment.md"
# A private repository's records are fetched with the job's own token, which may only read.
fetch_records() (
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="http.$SERVER/.extraheader"
  GIT_CONFIG_VALUE_0="AUTHORIZATION: basic $(printf 'x-access-token:%s' "$TOKEN" | base64 | tr -d '\n')"
  export GIT_CONFIG_VALUE_0
  spec-kitty trail fetch || echo "no records were fetched" >&2
)
code=0
while IFS= read -r folder; do
  rm -f "$REPORT/part.md"
  ended=0
  (enter "$folder" && fetch_records && spec-kitty gate --base "$BASE" --format markdown --output "$REPORT/part.md") \
    </dev/null || ended=$?
  if [ ! -s "$REPORT/part.md" ]; then
    echo "spec-kitty gate could not judge (exit code $ended): see its log." > "$REPORT/part.md"
  fi
  [ "$folder" = ./ ] || printf '\n## %s\n\n' "$folder" >> "$REPORT/comment.md"
  cat "$REPORT/part.md" >> "$REPORT/comment.md"
  [ "$ended" -le "$code" ] || code=$ended
done <<END
$(list_projects "$BASE")
END
cat "$REPORT/comment.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
exit "$code"
