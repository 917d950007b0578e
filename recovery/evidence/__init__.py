"""Evidence: files, notes and external references that decisions rely on. Bytes in a folder, facts in the database."""
