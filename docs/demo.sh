#!/bin/sh
# The main job on a little project in a temporary folder: init, profiles, do, ask, advise, complete, list, show, verify.
set -eu

project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT INT TERM
cd "$project"

# macOS has neither sha256sum nor a `head` that takes away from the end.
seal() {
    sed 's/,"~":"[0-9a-f]*"}$//' | tr -d '\n' | if command -v sha256sum > /dev/null; then sha256sum; else shasum -a 256; fi
}

step() {
    printf '\n\033[1m$ %s\033[0m\n' "$*"
    "$@"
}

# The value of one key of a JSON document on stdin.
field() {
    python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}

git init --quiet .
git config user.name Demo
git config user.email demo@example.org
mkdir -p .kittify/charter src migrations
cat > .kittify/charter/charter.md <<'CHARTER'
# Charter

## Policy Summary
- Every change comes with a test that fails without it.
- Migrations can be rolled back; the rollback was tried.

## Testing
Run `pytest -q` before you hand over, and quote its last line.
CHARTER
printf 'def login(name):\n    return name.strip()\n' > src/login.py
printf 'ALTER TABLE orders ADD COLUMN note text;\n' > migrations/004_orders.sql
git add . && git commit --quiet -m start

step spec-kitty init
step spec-kitty charter lint
step spec-kitty profiles list
step spec-kitty route "review the SQL migration" --explain

printf '\n\033[1m$ spec-kitty do "fix the failing login test" --json\033[0m\n'
answer=$(spec-kitty do "fix the failing login test" --json)
printf '%s\n' "$answer" | head -n 5
printf '  … the governance context and the close contract follow\n'
invocation=$(printf '%s' "$answer" | field invocation_id)
profile=$(printf '%s' "$answer" | field profile_id)

printf 'def login(name):\n    return name.strip().lower()\n' > src/login.py
git commit --quiet -am "Fold case at login"
printf 'pytest -q: 4 passed in 0.12s\n' > proof.md
token=ghp_$(printf 'a1B2%.0s' 1 2 3 4 5 6 7 8 9)  # made up, to see it masked
cat > work.jsonl <<WORK
{"event":"stage_transition","to":"mend"}
{"event":"tool_call","call_id":"c1","tool":"pytest","args":{"env":"API_TOKEN=$token"},"side_effect":"none"}
{"event":"tool_result","call_id":"c1","status":"ok","output":"4 passed in 0.12s"}
{"event":"patch_apply","path":"src/login.py","kind":"modify"}
WORK
printf '\n\033[1m$ spec-kitty profile-invocation record --invocation-id %s < work.jsonl\033[0m\n' "$invocation"
spec-kitty profile-invocation record --invocation-id "$invocation" < work.jsonl
rm work.jsonl

step spec-kitty profile-invocation complete --invocation-id "$invocation" \
    --evidence proof.md --artifact src/login.py --commit HEAD
step spec-kitty ask "$profile" "look at the login module once more" --json | head -n 5
step spec-kitty advise "review the SQL migration" | head -n 12
step spec-kitty invocations list
step spec-kitty invocations show "$invocation"
step spec-kitty invocations verify --all
step spec-kitty replay "$invocation"
printf '\n- No login without a second look.\n' >> .kittify/charter/charter.md
step spec-kitty replay "$invocation" --against current
step spec-kitty invocations export "$invocation" --safe --output run.tar
step spec-kitty invocations verify run.tar

record=$(ls .kittify/events/profile-invocations/*"$invocation".jsonl)
printf '\n\033[1m$ head -n 1 RECORD, without its seal | sha256sum   # no code of ours\033[0m\n'
printf 'by hand   %s\n' "$(head -n 1 "$record" | seal | cut -d ' ' -f 1)"
printf 'recorded  %s\n' "$(head -n 1 "$record" | field '~')"
