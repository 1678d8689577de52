"""Programs, module files and the devices that run them."""
