# The folders of the projects that a commit has, of two that are nested the outer one; the top where it has none.
list_projects() {
  found=$(git ls-tree -r -z --name-only "$1" | tr '\0' '\n' | sed -n 's#^#./#; s#/\.kittify/config\.yaml$#/#p' |
    LC_ALL=C sort | awk 'outer == "" || index($0, outer) != 1 { outer = $0; print }')
  printf '%s\n' "${found:-./}"
}
# Go into one of them; not through a link that the branch has put there.
enter() { cd "$1" && [ "$(git rev-parse --show-prefix)" = "${1#./}" ]; }
