"""The dossier of an instance: what was known, claimed, checked, decided, by whom, and what followed.

`gather` and `render` read the database; `bundle`, `check` and `__main__` need nothing but the file.
"""
