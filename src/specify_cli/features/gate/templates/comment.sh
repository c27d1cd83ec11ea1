gh run download "$RUN" --name spec-kitty-gate --dir report
find_ours='.[] | select((.body | startswith("<!-- spec-kitty gate -->")) and .user.type == "Bot") | .id'
id=$(gh api --paginate "repos/$GH_REPO/issues/$NUMBER/comments" --jq "$find_ours" | head -n 1)
if [ -n "$id" ]; then
  gh api --method PATCH "repos/$GH_REPO/issues/comments/$id" --field body=@report/comment.md --silent
else
  gh api --method POST "repos/$GH_REPO/issues/$NUMBER/comments" --field body=@report/comment.md --silent
fi
