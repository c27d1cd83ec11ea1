"""What the router knows of languages other than English.

    from specify_cli.routing.languages.east_asian import read_east_asian
    from specify_cli.routing.registry import shipped_table
    read_east_asian("请修复登录测试", shipped_table())[0].action        # "implement"

`european.json`, `slavic.json`, `nordic.json` and `turkish_romanian_indonesian.json` fill cells of
the English table, so the same grammar reads them. All but the first name `marks`: they are read
only for a text with one of these, or one that says nothing without them. Chinese, Japanese and
Korean have no blanks between words, or the verb at the end: `east_asian.py` reads them with the
cells of `east_asian.json`, by what stands in a sentence and not by its grammar.

Removing a file of words removes its languages and nothing else. `parser.py` imports it.
"""
