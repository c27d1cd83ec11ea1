"""Keep content as long as the project says, and erase what is due.

    from specify_cli.features.retention.rules import Facts, Rule, find_due
    outputs = Rule("outputs", ("tool_output",), at_most=30)
    find_due([outputs], Facts("implementer", "done", 0), 31 * 86_400_000)

Reading order: `rules.py` (the rules, what they say of a record and where they contradict each
other), `due.py` (which records they are about, what is due, how many bytes that frees), `duty.py`
(laws' and auditors' duties compared with the project), `checks.py` (what `doctor --sweep` does),
`commands.py`. What is due is erased by the room `forget`, under its annexes and certificates.
"""
