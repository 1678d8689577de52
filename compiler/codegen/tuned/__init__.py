"""Tuned records: choices whose cycles were measured, in logs and in the database that ships with the kit."""
