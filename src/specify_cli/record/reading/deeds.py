"""Name the deed of a tool: read, search, edit, run, …, and the files of a patch.  [pure]

    name_deed("run_shell_command")   # "run"

Tools of six programs have six names for one deed: a name is looked up without case and signs. What
the table does not know is the deed `use`: no deed of a new tool is guessed.
"""

from __future__ import annotations

import re

_DEEDS = {
    "read": "read readfile view readmanyfiles notebookread viewimage cat open "
    "readmediafile viewfile",
    "search": "grep glob ls find listdirectory listdir searchfilecontent grepsearch codebasesearch "
    "filesearch search rg list findfiles searchfiles",
    "edit": "edit write multiedit replace writefile applypatch create strreplace notebookedit "
    "editfile searchreplace insert strreplacebasededittool "
    "strreplaceeditor delete deletefile patch",
    "run": "bash shell runshellcommand execcommand localshell terminal runterminalcmd runcommand "
    "powershell runinterminal exec",
    "ask": "agent task invokeagent delegate spawnagent codebaseinvestigator",
    "wait": "waitagent bashoutput taskoutput writestdin readbash readpowershell",
    "plan": "todowrite updateplan todo updatetodo writetodos todoread exitplanmode enterplanmode",
    "fetch": "webfetch websearch fetch googlewebsearch browse webrun",
}
# What stands in place of a path that was erased or not kept.
NAMELESS = "a file whose name is not kept"
_DEED_OF = {name: deed for deed, names in _DEEDS.items() for name in names.split()}
# A file in the grammar of patches that models write.
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)


def name_deed(tool: str) -> str:
    """Return the deed of a tool: read, search, edit, run, ask, wait, plan, fetch, or use.

    `use` is for a tool that no list names, and for every tool of an MCP server.
    """
    if tool.startswith("mcp__"):
        return "use"
    name = re.sub(r"[^a-z]", "", tool.lower())
    agents = re.search(r"(spawn|wait)agent$", name)  # Codex puts a space of names before them
    return _DEED_OF.get(agents[0] if agents else name, "use")


def name_patched(text: str) -> str:
    """Return the files that a patch in the form `*** Begin Patch` names, "" where it names none."""
    return ", ".join(_PATCHED.findall(text))
