"""What the router knows of languages other than English.

    from specify_cli.routing.languages.asian import read_asian
    from specify_cli.routing.registry import shipped_table
    read_asian("请修复登录测试", shipped_table())[0].action        # "implement"

`european.json`, `slavic.json`, `nordic.json`, `greek_uralic_catalan.json` and
`turkish_romanian_indonesian.json` fill cells of the English table, so the same grammar reads them.
`asian.py` reads Asian languages by what stands in a sentence and not by its grammar: they have no
blanks between words, the verb at the end, or another script; its cells are in `east_asian.json` and
`south_west_asian.json`. All but `european.json` and `east_asian.json` name `marks`: they are read
only for a text with one of these, or one that says nothing without them.

Removing a file of words removes its languages and nothing else. `parser.py` imports it.
"""
