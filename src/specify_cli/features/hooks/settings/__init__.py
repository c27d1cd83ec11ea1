"""The settings files of harnesses: put our hooks in, take them out, and say how things stand.

    from specify_cli.features.hooks.settings.harnesses import HARNESSES
    sorted(HARNESSES)

Reading order: `harnesses.py` (the rows beside the modules of harnesses: where each keeps its
settings, and what is put there), `json_text.py` (change JSON and leave the rest of the text as it
is), `install.py` (plan and write a change), `detection.py` (which there are, which are in use,
what their hooks run).

What is not ours in a settings file keeps its bytes, and a file that has not its form is left alone.
Uninstalling takes out what runs our hook and keeps every other line. The rooms hooks and skills
import it.
"""
