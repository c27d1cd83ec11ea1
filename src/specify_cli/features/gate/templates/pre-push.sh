#!/bin/sh
# Written by `spec-kitty gate install --pre-push`: judges what is pushed before it leaves.
# git push --no-verify goes past it.
@PROJECTS@
remote=$1
base=$(git rev-parse --verify -q "refs/remotes/$remote/HEAD") ||
  base=$(git rev-parse --verify -q "refs/remotes/$remote/main") ||
  base=$(git rev-parse --verify -q "refs/remotes/$remote/master") || {
    echo "spec-kitty gate: nothing was judged: no base of $remote is known here; git remote set-head $remote --auto" >&2
    exit 0
  }
while read -r _ local_sha remote_ref _; do
  case "$local_sha" in *[!0]*) ;; *) continue ;; esac
  case "$remote_ref" in refs/heads/*) ;; *) continue ;; esac
  list_projects "$base" | while IFS= read -r folder; do
    (enter "$folder" && spec-kitty gate --base "$base" --head "$local_sha") >&2 </dev/null || exit 1
  done || exit 1
done
