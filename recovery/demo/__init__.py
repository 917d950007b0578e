"""The demo: a payments desk whose bank really fails, so that each kind of recovery has an instance to try it on.

Nothing here writes rows: definitions are published, instances started and tasks worked by the engine, as anywhere else.
"""

from pathlib import Path

PEOPLE = Path(__file__).parent / "people.json"
"""Who is there, with what rights, as `manage.py provision` takes it."""
