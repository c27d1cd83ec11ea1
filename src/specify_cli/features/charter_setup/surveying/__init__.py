"""What a repository says about itself: languages, commands, packages, data.

    from specify_cli.features.charter_setup.surveying.survey import survey
    survey(root).steps

Reading order: `repository.py` (names and the text of a few files, bounded), `steps.py` (how it is
built, checked and tested), `data.py` (where its schema changes lie), `survey.py` (all of it, and
its packages); `survey.json` is what they know of tools.

Nothing is run and no link is followed. The same files give the same survey in every checkout.
"""
