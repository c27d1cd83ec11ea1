"""Judge a range of commits by the rules of the branch that it shall be merged into (docs/gate.md).

    from specify_cli.features.gate.rules import parse_gate
    rules = parse_gate(b"rules: {tests: fail}").rules      # judge_project judges a range by them

Reading order: `rules.py` (gate.yaml), `findings.py` (what can be found), `evidence.py` (everything
that is read), `judging.py` (what the rules say of it), `waivers.py` (findings that somebody answers
for), `rendering.py` and `formats.py` (the verdict in six forms), `installing.py` (the workflow, the
template, the hook).

Rules, keys and signers are those of the base and never the branch's; what a branch brings is data.
The same inputs give the same bytes. The gate writes nothing but the files it is asked for. No room
needs it.
"""
