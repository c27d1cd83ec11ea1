#!/bin/sh
# The main job on a little project in a temporary folder: init, profiles, do, ask, advise, complete, list, show, verify.
set -eu

project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT INT TERM
cd "$project"
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1  # the tests of the little project need none, and start faster

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
mkdir -p .kittify/charter src tests migrations
cat > .kittify/charter/charter.md <<'CHARTER'
# Charter

## Policy Summary
- Every change comes with a test that fails without it.
- Migrations can be rolled back; the rollback was tried.

## Testing
Run `pytest -q` before you hand over, and quote its last line.
CHARTER
printf 'def login(name):\n    return name.strip()\n' > src/login.py
cat > tests/test_login.py <<'TEST'
import sys
sys.path.insert(0, "src")
from login import login

def test_case_of_a_name_does_not_matter():
    assert login(" Ada ") == login("ada")
TEST
printf 'ALTER TABLE orders ADD COLUMN note text;\n' > migrations/004_orders.sql
printf '__pycache__/\n' > .gitignore
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
command="API_TOKEN=ghp_$(printf 'a1B2%.0s' 1 2 3 4 5 6 7 8 9) pytest -q"  # a made-up token, to see it masked
sh -c "$command" > proof.md
python3 - "$command" > work.jsonl <<'WORK'
import json, subprocess, sys

def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout

before, after = git("show", "HEAD:src/login.py"), open("src/login.py").read()
for event in (
    {"event": "stage_transition", "to": "mend"},
    {"event": "patch_apply", "path": "src/login.py", "kind": "modify",
     "before": before, "after": after, "diff": git("diff", "src/login.py")},
    {"event": "tool_call", "call_id": "c1", "tool": "shell", "args": {"command": sys.argv[1]}, "side_effect": "none"},
    {"event": "tool_result", "call_id": "c1", "status": "ok", "output": open("proof.md").read()},
):
    print(json.dumps(event))
WORK
git commit --quiet -am "Fold case at login"
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
