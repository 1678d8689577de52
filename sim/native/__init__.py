"""The functional model's native code, generated for one configuration."""
