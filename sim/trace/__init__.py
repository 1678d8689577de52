"""Views of one run as text: a timeline for Perfetto, and one line per event."""
