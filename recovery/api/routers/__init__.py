"""One router a topic; each view finds, calls and renders."""
