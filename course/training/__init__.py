"""Running and measuring: the device, timing."""
